/* Calls that are interrupted: interrupted ROLE HOST PORT. Its server returns what it sends. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"

static struct sockaddr_in server;

static int call(void)
{
    struct timeval limit = { .tv_sec = 20 };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&server, sizeof server) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    return fd;
}

static void exchange(int fd)
{
    char back[8];
    CHECK(send(fd, "question", 8, 0) == 8);
    CHECK(recv(fd, back, 8, MSG_WAITALL) == 8 && memcmp(back, "question", 8) == 0);
}

/* ---- cancelled threads */

enum way { READ, POLL, SELECT, EPOLL, BUSY, WAYS };

static void wait_for(int fd, enum way way)
{
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    struct epoll_event event = { .events = EPOLLIN };
    fd_set set;
    char byte;
    int epoll = epoll_create1(0);
    switch (way) {
    case READ:
        read(fd, &byte, 1);
        break;
    case POLL:
        poll(&polled, 1, 20000);
        break;
    case SELECT:
        FD_ZERO(&set);
        FD_SET(fd, &set);
        select(fd + 1, &set, NULL, NULL, NULL);
        break;
    case EPOLL:
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
        epoll_wait(epoll, &event, 1, 20000);
        break;
    default:
        for (;;)
            exchange(fd);
    }
}

static enum way way;
static int type, cancels_before;

static void *wait_in_thread(void *fd)
{
    int before;
    CHECK(pthread_setcanceltype(type, &before) == 0);
    if (cancels_before)
        CHECK(pthread_cancel(pthread_self()) == 0);
    wait_for(*(int *)fd, way);
    return NULL;
}

static void cancel(void)
{
    int other = call(), rounds = 20, round;
    alarm(50);
    for (way = READ; way < WAYS; way++)
        for (round = 0; round < rounds; round++) {
            pthread_t thread;
            void *result;
            int fd = call();
            type = round % 2 && way != BUSY ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED;
            cancels_before = round % 3 == 2 && type == PTHREAD_CANCEL_DEFERRED;
            CHECK(pthread_create(&thread, NULL, wait_in_thread, &fd) == 0);
            usleep(500 * round);
            CHECK(cancels_before || pthread_cancel(thread) == 0);
            CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
            exchange(other);
            if (way != BUSY)
                exchange(fd);
            close(fd);
        }
    close(other);
}

/* ---- signals */

static sigjmp_buf place;

static void leave(int signal)
{
    (void)signal;
    siglongjmp(place, 1);
}

/* A handler leaves a read for good. */
static void jump(void)
{
    struct itimerval soon = { .it_value = { .tv_usec = 100000 } };
    struct sigaction action = { .sa_handler = leave };
    int fd = call(), other = call();
    char byte;
    exchange(fd);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    if (sigsetjmp(place, 1) == 0) {
        CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
        read(fd, &byte, 1);
        CHECK(0);
    }
    exchange(fd);
    exchange(other);
    close(call());
    close(fd);
    close(other);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    server = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(atoi(argv[3])) };
    CHECK(inet_pton(AF_INET, argv[2], &server.sin_addr) == 1);
    if (strcmp(argv[1], "cancel") == 0)
        cancel();
    else
        jump();
    return 0;
}
