/* Helpers of the programs of this folder.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CLASSIC_H
#define CLASSIC_H

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <suci/datagram.h>

#define CLASSIC static __attribute__((unused))

/* Ends the program because a call of the library failed. */
CLASSIC void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, datagram_error());
    exit(1);
}

/* Ends the program because a call of the system failed. */
CLASSIC void die_system(const char *what)
{
    perror(what);
    exit(1);
}

/* Returns the time in seconds. */
CLASSIC double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Returns the processor time of this process in seconds. */
CLASSIC double processor_time(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

/* Reads the host table in the file `path`. */
CLASSIC addressdb read_nodes(const char *path)
{
    addressdb db = {{0}};
    FILE *file = fopen(path, "r");

    if (file == NULL)
        die_system(path);
    if (addressdb_lex(file, &db) != 0)
        die("addressdb_lex");
    fclose(file);
    return db;
}

/* Returns the number of nodes in the file `path`. */
CLASSIC uint32_t count_nodes(const char *path)
{
    size_t count = 0;
    addressdb db = read_nodes(path);

    if (suci_book_count(db.book, &count) != SUCI_OK)
        die("suci_book_count");
    addressdb_free(&db);
    return (uint32_t)count;
}

/* Opens the socket of node `id`. The networks of these programs have no strangers. */
CLASSIC datagram_socket *open_socket(const char *nodes, uint32_t id, int flags,
                                     const suci_node_options *options)
{
    addressdb db = read_nodes(nodes);
    datagram_socket *sock =
        datagram_open(&db, NULL, 0, id, flags | DATAGRAM_ALLOW_INSECURE_NETWORK, options);

    if (sock == NULL)
        die("datagram_open");
    addressdb_free(&db);
    return sock;
}

/* Returns the address of a node for TCP: that of its UDP socket. */
CLASSIC struct sockaddr_in tcp_address(const char *nodes, uint32_t id)
{
    char text[SUCI_ADDRESS_SIZE];
    struct sockaddr_in address = {.sin_family = AF_INET};
    addressdb db = read_nodes(nodes);

    if (suci_book_address(db.book, id, 0, text) != SUCI_OK)
        die("suci_book_address");
    addressdb_free(&db);
    char *colon = strrchr(text, ':');
    address.sin_port = htons((uint16_t)atoi(colon + 1));
    *colon = '\0';
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
        die_system(text);
    return address;
}

/* Opens the TCP socket at which node `id` accepts connections. */
CLASSIC int tcp_listen(const char *nodes, uint32_t id)
{
    struct sockaddr_in address = tcp_address(nodes, id);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 128) != 0)
        die_system("listen");
    return listener;
}

/* Sends small writes at once. */
CLASSIC int tcp_no_delay(int fd)
{
    int on = 1;

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        die_system("TCP_NODELAY");
    return fd;
}

CLASSIC int tcp_accept(int listener)
{
    int fd = accept(listener, NULL, NULL);

    if (fd < 0)
        die_system("accept");
    return tcp_no_delay(fd);
}

/* Connects to `address`; waits for up to 30 s until somebody listens there. */
CLASSIC int tcp_connect(const struct sockaddr_in *address)
{
    double deadline = now() + 30;

    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0)
            die_system("socket");
        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
            return tcp_no_delay(fd);
        if (errno != ECONNREFUSED || now() > deadline)
            die_system("connect");
        close(fd);
        usleep(10000);
    }
}

/* Sends one message: its length in 4 bytes, then its bytes, by one system call if it fits. */
CLASSIC void tcp_send(int fd, const void *data, size_t length)
{
    uint32_t header = (uint32_t)length;
    struct iovec parts[2] = {{&header, sizeof header}, {(void *)(uintptr_t)data, length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    size_t left = sizeof header + length;

    while (left > 0) {
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0)
            die_system("sendmsg");
        left -= (size_t)sent;
        for (int i = 0; i < 2; i++) {
            size_t part = (size_t)sent < parts[i].iov_len ? (size_t)sent : parts[i].iov_len;
            parts[i].iov_base = (char *)parts[i].iov_base + part;
            parts[i].iov_len -= part;
            sent -= (ssize_t)part;
        }
    }
}

/* Receives `length` bytes. Returns 0 if the connection ended before the first of them. */
CLASSIC int tcp_receive_bytes(int fd, void *data, size_t length)
{
    char *at = data;
    size_t left = length;

    while (left > 0) {
        ssize_t got = recv(fd, at, left, 0);
        if (got < 0)
            die_system("recv");
        if (got == 0 && left == length)
            return 0;
        if (got == 0) {
            fprintf(stderr, "a connection ended amid a message\n");
            exit(1);
        }
        at += got;
        left -= (size_t)got;
    }
    return 1;
}

/* Receives one message into `data` of `size` bytes. Returns its length; -1 at the connection's
 * end. */
CLASSIC ssize_t tcp_receive(int fd, void *data, size_t size)
{
    uint32_t length;

    if (!tcp_receive_bytes(fd, &length, sizeof length))
        return -1;
    if (length > size || !tcp_receive_bytes(fd, data, length)) {
        fprintf(stderr, "a message of %" PRIu32 " bytes: too long, or cut short\n", length);
        exit(1);
    }
    return (ssize_t)length;
}

/* Does input and output until a message can be read; fails after 30 s. */
CLASSIC void wait_for_message(datagram_socket *sock)
{
    int ready = datagram_ready(sock, 30, 0);

    if (ready < 0)
        die("datagram_ready");
    if (ready == 0) {
        fprintf(stderr, "no message came within 30 s\n");
        exit(1);
    }
}

/* Does input and output until nodes 1 to `others` have acknowledged everything. Polls, because no
 * message tells of an acknowledgement. */
CLASSIC void wait_for_acknowledgements(datagram_socket *sock, uint32_t others)
{
    double deadline = now() + 60;

    for (uint32_t id = 1; id <= others; id++) {
        while (datagram_queue_length(sock, id) > 0) {
            if (datagram_ready(sock, 0, 0) < 0)
                die("datagram_ready");
            if (now() > deadline) {
                fprintf(stderr, "node %" PRIu32 " did not acknowledge within 60 s\n", id);
                exit(1);
            }
        }
    }
}

/* The ways to send that the programs compare. */
enum method { WRITE, PACKET, TCP };

CLASSIC enum method method_of(const char *name)
{
    if (strcmp(name, "write") == 0)
        return WRITE;
    if (strcmp(name, "packet") == 0)
        return PACKET;
    if (strcmp(name, "tcp") == 0)
        return TCP;
    fprintf(stderr, "no method \"%s\": there is write, packet and tcp\n", name);
    exit(2);
}

/* Takes one message and returns its length; waits for it. */
CLASSIC size_t take(datagram_socket *sock, enum method method, void *buffer, size_t size)
{
    wait_for_message(sock);
    if (method == WRITE) {
        ssize_t length = datagram_read(sock, buffer, size);
        if (length < 0)
            die("datagram_read");
        return (size_t)length;
    }
    datagram_packet *packet = datagram_packet_get(sock);
    if (packet == NULL)
        die("datagram_packet_get");
    size_t length = packet->length;
    datagram_free_packet(packet);
    return length;
}

/* Queues a copy of `length` bytes for `dest`. */
CLASSIC void write_to(datagram_socket *sock, uint32_t dest, const void *data, size_t length)
{
    if (datagram_destination(dest, sock) != 0)
        die("datagram_destination");
    if (datagram_write(sock, data, length) < 0)
        die("datagram_write");
}

/* Queues the packets of `list` for `dest`. */
CLASSIC void put_to(datagram_socket *sock, uint32_t dest, datagram_packet *list)
{
    if (datagram_packet_put(sock, list, dest) < 0)
        die("datagram_packet_put");
}

/* Makes a packet of `length` bytes. */
CLASSIC datagram_packet *new_packet(datagram_socket *sock, size_t length)
{
    datagram_packet *packet = datagram_new_packet(sock, length);

    if (packet == NULL)
        die("datagram_new_packet");
    return packet;
}

/* Tells nodes 1 to `others` by an empty message that everything is over, and closes the socket. */
CLASSIC void end(datagram_socket *sock, uint32_t others)
{
    for (uint32_t id = 1; id <= others; id++)
        write_to(sock, id, "", 0);
    if (datagram_close(sock, 30, 0) != 0)
        die("datagram_close");
}

#endif
