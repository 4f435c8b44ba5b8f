/*  Terms as bytes and back, for library(suci).

    SPDX-License-Identifier: MIT OR Apache-2.0
*/

:- module(suci_terms,
          [ payload/3,                  % +Term, +Options, -Payload
            received_form/2,            % +Options, -Form
            message_term/2              % +Message, -Term
          ]).
:- use_module(library(error)).
:- use_module(library(option)).

/** <module> Terms as bytes and back

Private to library(suci), whose page says which forms there are and what is safe.
*/

%   payload(+Term, +Options, -Payload): what the foreign part makes bytes of.

payload(Packet, _, Packet) :-
    blob(Packet, suci_packet),
    !.
payload(Term, Options, Payload) :-
    must_be(list, Options),
    option(as(Form), Options, term),
    (   payload_of(Form, Term, Payload)
    ->  true
    ;   domain_error(suci_form, Form)
    ).

payload_of(term, Term, text(Text)) :-
    canonical_text(Term, Text).
payload_of(fast, Term, record(Term)).
payload_of(string, Text, text(Text)).
payload_of(bytes, Bytes, bytes(Bytes)).

%   canonical_text(+Term, -Text): no operators, no attributes, and nothing that cannot be read.

canonical_text(Term, Text) :-
    with_output_to(
        string(Text),
        write_term(Term,
                   [ quoted(true), ignore_ops(true), cycles(false), attributes(ignore),
                     numbervars(false), no_lists(false), dotlists(false), brace_terms(false),
                     character_escapes(true), blobs(portray), portray_goal(suci_terms:portray_blob)
                   ])).

%   portray_blob(+Term, +Options): called for a blob, which no text stands for.

:- public portray_blob/2.

portray_blob(Blob, _) :-
    blob(Blob, Type),
    Type \== text,
    Type \== reserved_symbol,
    type_error(suci_term, Blob).

%   received_form(+Options, -Form)

received_form(Options, Form) :-
    option(as(Asked), Options, term),
    (   received_form_(Asked, Form)
    ->  true
    ;   domain_error(suci_form, Asked)
    ).

received_form_(term, term).
received_form_(fast, term).
received_form_(string, string).
received_form_(bytes, bytes).

%   message_term(+Message, -Term): Message is message(From, Payload, Bytes, Channel, Tag, Kind,
%   Session, Number, UserHeader, IsRequest).

message_term(Message, Term) :-
    arg(2, Message, Payload),
    payload_term(Payload, Message, Term).

payload_term(value(Term), _, Term) :-
    !.
payload_term(text(Text), Message, Term) :-
    !,
    arg(1, Message, Peer),
    catch(read_text(Text, Term), error(Formal, _), true),
    (   var(Formal)
    ->  true
    ;   throw(error(Formal, suci_message(Peer, Text)))
    ).
payload_term(untrusted_fast_term, Message, _) :-
    !,
    arg(1, Message, Peer),
    arg(3, Message, Bytes),
    throw(error(permission_error(read, fast_term, Peer), suci_message(Peer, Bytes))).
payload_term(Why, Message, _) :-
    arg(1, Message, Peer),
    arg(3, Message, Bytes),
    throw(error(syntax_error(Why), suci_message(Peer, Bytes))).

:- set_module(suci_text:base(system)).

%   read_text(+Text, -Term): reads one term of a stranger, with or without a full stop. The module
%   has the standard operators and flags only, whatever the program defines in `user`.

read_text(Text, Term) :-
    string_concat(Text, "\n.", Clause),
    setup_call_cleanup(
        open_string(Clause, In),
        (   read_single(In, Term)
        ->  true
        ;   %   read_term/3 fails for some faulty quasi quotations, as of "{|-[|}".
            throw(error(syntax_error(illegal_term), _))
        ),
        close(In)).

read_single(In, Term) :-
    read_term(In, Term,
              [ module(suci_text), syntax_errors(error), double_quotes(string),
                back_quotes(codes), dotlists(false), var_prefix(false), cycles(false),
                quasi_quotations(Quasi)
              ]),
    (   Quasi \== []
    ->  throw(error(syntax_error(quasi_quotation), _))
    ;   read_string(In, _, Rest),
        split_string(Rest, "", " \t\r\n", [Left]),
        memberchk(Left, ["", "."])
    ->  true
    ;   throw(error(syntax_error(end_of_message_expected), _))
    ).
