/* Helpers of the test programs. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <suci/suci.h>

/* Ends the program if a condition does not hold. */
#define check(condition)                                                                      \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            fprintf(stderr, "%s:%d: not true: %s\nlast error: %s\n", __FILE__, __LINE__,      \
                    #condition, suci_last_error_message());                                   \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

/* Ends the program if a call failed. */
#define must(call)                                                                            \
    do {                                                                                      \
        int must_result = (call);                                                             \
        if (must_result != SUCI_OK) {                                                         \
            fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call,                 \
                    suci_strerror(must_result), suci_last_error_message());                   \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

#endif
