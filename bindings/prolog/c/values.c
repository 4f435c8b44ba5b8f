/*
 * values.c - Prolog terms as values of C, and back.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include <math.h>
#include <string.h>

#include "suci4pl.h"

const struct name MODES[] = {
    { "adaptive", SUCI_MODE_ADAPTIVE },
    { "throughput", SUCI_MODE_THROUGHPUT },
    { "response", SUCI_MODE_RESPONSE },
    { NULL, 0 }
};

const struct name CONTROLLERS[] = {
    { "auto", SUCI_CONTROLLER_AUTO },
    { "lan", SUCI_CONTROLLER_LAN },
    { "wan", SUCI_CONTROLLER_WAN },
    { "cubic", SUCI_CONTROLLER_CUBIC },
    { "fixed", SUCI_CONTROLLER_FIXED },
    { NULL, 0 }
};

const struct name WAITS[] = {
    { "adaptive", SUCI_WAIT_ADAPTIVE },
    { "sleep", SUCI_WAIT_SLEEP },
    { "spin", SUCI_WAIT_SPIN },
    { NULL, 0 }
};

const struct name ACCEPTS[] = {
    { "book", SUCI_ACCEPT_BOOK },
    { "anyone", SUCI_ACCEPT_ANYONE },
    { NULL, 0 }
};

const struct name LINKS[] = {
    { "idle", SUCI_LINK_IDLE },
    { "connecting", SUCI_LINK_CONNECTING },
    { "up", SUCI_LINK_UP },
    { "lost", SUCI_LINK_LOST },
    { "quiet", SUCI_LINK_QUIET },
    { NULL, 0 }
};

const char *name_of(const struct name *names, uint32_t value)
{
    for (; names->name; names++)
        if (names->value == value)
            return names->name;
    return "unknown";
}

int get_name(term_t t, const struct name *names, const char *domain, uint32_t *value)
{
    char *text;

    if (!PL_get_chars(t, &text, CVT_ATOM | CVT_STRING))
        return PL_type_error("atom", t);
    for (; names->name; names++) {
        if (strcmp(names->name, text) == 0) {
            *value = names->value;
            return TRUE;
        }
    }
    return PL_domain_error(domain, t);
}

/* Reads a whole number from 0 to `limit`. */
static int get_bounded(term_t t, uint64_t limit, const char *domain, uint64_t *value)
{
    if (!PL_is_integer(t))
        return PL_type_error("integer", t);
    if (!PL_get_uint64(t, value) || *value > limit)
        return PL_domain_error(domain, t);
    return TRUE;
}

int get_u64(term_t t, uint64_t *value)
{
    return get_bounded(t, UINT64_MAX, "unsigned_64_bit_integer", value);
}

int get_u32(term_t t, uint32_t *value)
{
    uint64_t wide;

    if (!get_bounded(t, UINT32_MAX, "unsigned_32_bit_integer", &wide))
        return FALSE;
    *value = (uint32_t)wide;
    return TRUE;
}

int get_u8(term_t t, uint8_t *value)
{
    uint64_t wide;

    if (!get_bounded(t, UINT8_MAX, "byte", &wide))
        return FALSE;
    *value = (uint8_t)wide;
    return TRUE;
}

int get_seconds(term_t t, int64_t *nanoseconds)
{
    double seconds;
    atom_t atom;

    if (PL_get_atom(t, &atom) && strcmp(PL_atom_chars(atom), "infinite") == 0) {
        *nanoseconds = SUCI_FOREVER;
        return TRUE;
    }
    if (!PL_get_float(t, &seconds))
        return PL_type_error("seconds", t);
    if (isnan(seconds) || seconds < 0)
        return PL_domain_error("seconds", t);
    /* More than 292 years does not fit into 63 bits. */
    *nanoseconds = seconds > 9e9 ? SUCI_FOREVER : (int64_t)(seconds * 1e9);
    return TRUE;
}

int get_text(term_t t, char **text)
{
    return PL_get_chars(t, text, CVT_ATOM | CVT_STRING | CVT_LIST | REP_UTF8 | BUF_MALLOC
                                 | CVT_EXCEPTION);
}

int put_bytes(term_t t, const void *bytes, size_t length)
{
    return PL_put_chars(t, PL_STRING | REP_ISO_LATIN_1, length, bytes ? bytes : "");
}

/* Returns the length of the character that begins at `s`, or 0 if there is none. */
static size_t utf8_length(const unsigned char *s, size_t left)
{
    static const uint32_t LEAST[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3
                  : s[0] < 0xf8 ? 4 : 0;
    uint32_t code;

    if (length < 2)
        return length;
    if (length > left)
        return 0;
    code = s[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    /* Neither a longer form than needed, nor half of a surrogate pair, nor beyond Unicode. */
    if (code < LEAST[length] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
        return 0;
    return length;
}

bool is_utf8(const void *bytes, size_t length)
{
    const unsigned char *s = bytes;

    while (length > 0) {
        size_t step = utf8_length(s, length);

        if (step == 0)
            return false;
        s += step;
        length -= step;
    }
    return true;
}
