/*
 * payload.c - what a message is made of: text, bytes, or a term in the format of fast_write/2.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * PL_recorded_external() trusts its input: wrong bytes end the process. So a receiver reads a
 * record only if its program trusts the peers. The header keeps records of other versions of Prolog
 * out, which come by accident.
 */

#include <stdlib.h>
#include <string.h>

#include "suci4pl.h"

static functor_t FUNCTOR_text1, FUNCTOR_bytes1, FUNCTOR_record1;

static unsigned char HEADER[RECORD_HEADER] = "SWIrec";

/* A packet of the packet API: a payload that is made once and sent any number of times. */
struct packet {
    size_t length;
    unsigned char bytes[];
};

static int packet_release(atom_t atom)
{
    free(PL_blob_data(atom, NULL, NULL));
    return TRUE;
}

static int packet_write(IOSTREAM *stream, atom_t atom, int flags)
{
    const struct packet *packet = PL_blob_data(atom, NULL, NULL);

    (void)flags;
    Sfprintf(stream, "<suci_packet>(%zu,%p)", packet->length, (const void *)packet);
    return TRUE;
}

static PL_blob_t PACKET = {
    .magic = PL_BLOB_MAGIC,
    .flags = PL_BLOB_NOCOPY,
    .name = "suci_packet",
    .release = packet_release,
    .write = packet_write,
};

bool packet_piece(atom_t atom, struct iovec *piece)
{
    PL_blob_t *type;
    struct packet *packet = PL_blob_data(atom, NULL, &type);

    if (type != &PACKET)
        return false;
    *piece = (struct iovec){ .iov_base = packet->bytes, .iov_len = packet->length };
    return true;
}

bool is_record(const void *bytes, size_t length)
{
    return length >= RECORD_MAGIC && memcmp(bytes, HEADER, RECORD_MAGIC) == 0;
}

bool record_fits(const void *bytes, size_t length)
{
    return length > RECORD_HEADER && memcmp(bytes, HEADER, RECORD_HEADER) == 0;
}

static int get_record(term_t t, struct payload *payload)
{
    size_t size;

    payload->record = PL_record_external(t, &size);
    if (!payload->record)
        return FALSE;
    payload->pieces[0] = (struct iovec){ .iov_base = HEADER, .iov_len = RECORD_HEADER };
    payload->pieces[1] = (struct iovec){ .iov_base = payload->record, .iov_len = size };
    payload->count = 2;
    return TRUE;
}

static int get_chars(term_t t, unsigned encoding, struct payload *payload)
{
    size_t length;

    if (!PL_get_nchars(t, &length, &payload->text, CVT_STRING | CVT_ATOM | CVT_LIST | BUF_MALLOC
                                                   | CVT_EXCEPTION | encoding)) {
        payload->text = NULL;
        return FALSE;
    }
    payload->pieces[0] = (struct iovec){ .iov_base = payload->text, .iov_len = length };
    payload->count = 1;
    return TRUE;
}

int payload_get(term_t t, struct payload *payload)
{
    term_t arg = PL_new_term_ref();
    atom_t atom;

    *payload = (struct payload){ .count = 0 };
    if (PL_is_functor(t, FUNCTOR_text1)) {
        return PL_get_arg(1, t, arg) && get_chars(arg, REP_UTF8, payload);
    } else if (PL_is_functor(t, FUNCTOR_bytes1)) {
        return PL_get_arg(1, t, arg) && get_chars(arg, REP_ISO_LATIN_1, payload);
    } else if (PL_is_functor(t, FUNCTOR_record1)) {
        return PL_get_arg(1, t, arg) && get_record(arg, payload);
    } else if (PL_get_atom(t, &atom) && packet_piece(atom, payload->pieces)) {
        payload->count = 1;
        return TRUE;
    }
    return PL_type_error("suci_payload", t);
}

void payload_free(struct payload *payload)
{
    if (payload->text)
        PL_free(payload->text);
    if (payload->record)
        PL_erase_external(payload->record);
    *payload = (struct payload){ .count = 0 };
}

/* packet_new(+Payload, -Packet): copies a payload into a packet. */
static foreign_t packet_new(term_t content, term_t result)
{
    struct payload payload;
    struct packet *packet;
    size_t length = 0;

    if (!payload_get(content, &payload))
        return FALSE;
    for (size_t i = 0; i < payload.count; i++)
        length += payload.pieces[i].iov_len;
    packet = malloc(sizeof *packet + length);
    if (!packet) {
        payload_free(&payload);
        return PL_resource_error("memory");
    }
    packet->length = 0;
    for (size_t i = 0; i < payload.count; i++) {
        memcpy(packet->bytes + packet->length, payload.pieces[i].iov_base,
               payload.pieces[i].iov_len);
        packet->length += payload.pieces[i].iov_len;
    }
    payload_free(&payload);
    return PL_unify_blob(result, packet, sizeof *packet + length, &PACKET);
}

void install_payload(void)
{
    FUNCTOR_text1 = PL_new_functor(PL_new_atom("text"), 1);
    FUNCTOR_bytes1 = PL_new_functor(PL_new_atom("bytes"), 1);
    FUNCTOR_record1 = PL_new_functor(PL_new_atom("record"), 1);
    HEADER[RECORD_MAGIC] = (unsigned char)PL_version_info(PL_VERSION_REC);
    HEADER[RECORD_MAGIC + 1] = (unsigned char)sizeof(void *);
    PL_register_foreign("packet_new", 2, packet_new, 0);
}
