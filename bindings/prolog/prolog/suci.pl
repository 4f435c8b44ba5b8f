/*  library(suci): reliable messages to every process of a cluster through one UDP socket.

    SPDX-License-Identifier: MIT OR Apache-2.0
*/

:- module(suci,
          [ suci_open/2,                % -Node, +Options
            suci_close/1,               % +Node
            suci_close/2,               % +Node, +Options
            is_suci_node/1,             % @Term
            suci_node_property/2,       % +Node, ?Property
            suci_counters/2,            % +Node, -Counters

            suci_send/3,                % +Node, +Peer, +Term
            suci_send/4,                % +Node, +Peer, +Term, +Options
            suci_broadcast/4,           % +Node, +Peers, +Term, +Options
            suci_flush/2,               % +Node, +Timeout
            suci_recv/3,                % +Node, ?Peer, -Term
            suci_recv/4,                % +Node, ?Peer, -Term, +Options
            suci_next/2,                % +Node, -Item
            suci_next/3,                % +Node, -Item, +Options
            suci_call/4,                % +Node, +Peer, +Request, -Reply
            suci_call/5,                % +Node, +Peer, +Request, -Reply, +Options
            suci_reply/3,               % +Node, +Request, +Reply
            suci_reply/4,               % +Node, +Request, +Reply, +Options
            suci_accept/4,              % +Node, +Peer, +Channel, +Number
            suci_refuse/5,              % +Node, +Peer, +Channel, +Number, +Reason

            suci_add_peer/3,            % +Node, +Peer, +Address
            suci_remove_peer/2,         % +Node, +Peer
            suci_peers/2,               % +Node, -Peers
            suci_peer_stats/3,          % +Node, +Peer, -Stats
            suci_set_peer/3,            % +Node, +Peer, +Options
            suci_connect/2,             % +Node, +Peer
            suci_suspend/2,             % +Node, +Peer
            suci_resume/2,              % +Node, +Peer
            suci_retransmit/2,          % +Node, +Peer
            suci_reset/2,               % +Node, +Peer
            suci_close_peer/3,          % +Node, +Peer, +Patience
            suci_queue/4,               % +Node, +Peer, -Messages, -Bytes
            suci_window/4,              % +Node, +Peer, +Channel, -Bytes

            suci_env_id/1,              % -ID
            suci_env_size/1,            % -Count
            suci_version/1              % -Version
          ]).
:- use_module(library(error)).
:- use_module(library(lists)).
:- use_module(library(option)).
:- use_module(suci/foreign).
:- use_module(suci/terms).
:- reexport(suci/datagram).

/** <module> Messages between Prolog processes, over one UDP socket each

A _node_ is a process of a cluster. It sends terms to other nodes, its _peers_, and receives theirs.
Messages on a channel arrive complete, in order and at most once.

```
?- suci_open(Zero, [id(0), accept(anyone)]),
   suci_node_property(Zero, address(Address)),
   suci_open(One, [id(1)]),
   suci_add_peer(One, 0, Address),
   suci_send(One, 0, hello(world)),
   suci_recv(Zero, Peer, Term).
Peer = 1, Term = hello(world).
```

Two sets of predicates work on the same nodes: `suci_*`, and `datagram_*` with the names of the
published Prolog interface of Suci.

## Nodes are blobs {#suci-nodes}

A node is closed by suci_close/1, by garbage collection, or when Prolog halts. A predicate that is
called with a closed node raises existence_error(suci_node, Node).

suci_open/2 opens a node with an I/O thread of its own, unless told otherwise by threads(0). Any
number of Prolog threads may use such a node at the same time. One with threads(0) answers faster,
and only one Prolog thread may be in it at a time; another one gets the error
suci_error(busy, Message). datagram/5 opens nodes of this kind.

Predicates that wait do not keep other Prolog threads from running. Signals (thread_signal/2,
call_with_time_limit/2, Ctrl-C) are handled within 50 ms.

## What a message holds {#suci-payloads}

The option as(Form) of the predicates that send and receive says how a term becomes bytes:

  - term
    The default. The term in canonical form, as UTF-8 text: quoted, without operators, as other
    languages can read it. Variables are kept, their attributes are not. Streams and other blobs
    raise a type error, cyclic terms a domain error.
  - fast
    The format of fast_write/2, for sending only: several times faster, but only for the same
    version of SWI-Prolog. Cyclic terms may be sent. *The reader of that format trusts its input:
    wrong bytes end the process.* So suci_recv/4 and others read it only on nodes opened with
    trust(true); other nodes raise permission_error(read, fast_term, Peer). Open a node with
    trust(true) only if every process that can reach it is yours.
  - string
    Text: UTF-8. Sent from a string, an atom, or a list of codes.
  - bytes
    Bytes: characters 0 to 255 of a string, an atom, or a list of codes. Received as a string.

A receiver with as(term) takes text and, if it trusts its peers, fast terms. Reading text is safe
whatever a peer sends: the reader has no operators but the standard ones, no flags of the program,
calls no quasi quotation and accepts one term only. What it cannot read raises
error(syntax_error(Why), suci_message(Peer, Payload)), where Payload is a string. A term that was
read is data from a stranger all the same: never call it. Each new name and arity of a compound term
stays in Prolog's memory for ever, so a hostile peer can waste memory; max_message(Bytes) bounds a
single message.

## Errors {#suci-errors}

Errors are ISO terms, error(Formal, Context). Besides type_error and the like, Formal is one of
  - existence_error(suci_node, Node)
    The node is closed.
  - existence_error(suci_peer, Peer)
    The node knows no such peer.
  - permission_error(send, suci_peer, Peer)
    One side suspended the session with the peer.
  - resource_error(suci_send_queue)
    The send queue to the peer is full, also after waiting. Others are suci_memory,
    suci_receive_buffer, suci_peers and suci_channels.
  - timeout_error(suci, Peer)
    No reply came to suci_call/5 within the limit.
  - domain_error(suci_address, Address)
    The text is no address.
  - suci_error(Code, Message)
    Others. Code is the name of the value of `enum suci_error` in suci.h, in lower case and without
    the prefix, or errno(Number).

Time limits are seconds, as integers or floats, or the atom `infinite`.
*/

                 /*******************************
                 *            NODES             *
                 *******************************/

%!  suci_open(-Node, +Options) is det.
%
%   Opens a node. Options:
%
%     - id(+ID)
%       The node ID, unique in the cluster. Default: that which `suci run` gave to this process.
%     - listen(+Address)
%       The local `address:port`. Port 0 lets the system choose. Default: that of the address book,
%       else `127.0.0.1:0`.
%     - book(+Book)
%       The address book: a list of ID-Address, as from addressdb_lex/2, or text with one
%       `id address:port` per line. Default: the file that `suci run` wrote, if any.
%     - book_file(+File)
%       A file with such text.
%     - accept(+Who)
%       `book` (default) lets nodes of the book connect, `anyone` all others, too.
%     - threads(+Count)
%       I/O threads: 1 by default; 0 for a node that works only while it is called.
%     - trust(+Boolean)
%       Whether peers may send terms with as(fast). Default `false`. See the top of this page.
%     - mode(+Mode)
%       The preference of traffic to peers: `adaptive` (default), `throughput`, or `response`.
%     - allow_insecure_network(+Boolean)
%       Whether an address beyond loopback may be used, although messages are not encrypted.
%       Default `false`.
%     - max_message(+Bytes), memory(+Bytes), send_queue(+Bytes), max_peers(+Count)
%       Limits: the longest message that is taken unasked (64 MiB), received data that waits for the
%       program (256 MiB), data queued to one peer (64 MiB), peers (16,384).
%     - silence_timeout(+Seconds), give_up_after(+Seconds)
%       Silence after which a peer is lost (10 s), and after which its session ends (300 s).
%     - keep_alive(+Boolean), unattended(+Boolean), payload_checksum(+Boolean),
%       statistics(+Boolean), ecn(+Boolean), gso(+Boolean), gro(+Boolean), reuse_port(+Boolean),
%       only_v6(+Boolean), ignore_supervision(+Boolean)
%     - controller(+Name), controller_window(+Bytes), rate_cap(+Bytes), wait(+How), spin(+Seconds)
%     - max_ack_delay(+Seconds), max_datagram(+Bytes), rts_threshold(+Bytes), recv_buffer(+Bytes),
%       send_buffer(+Bytes), recv_slot(+Bytes), metrics(+Address), faults(+Text)
%       As the fields of `suci_node_options` in suci.h.
%
%   @error domain_error(suci_open_option, Option) if there is no such option.
%   @error suci_error(address_in_use, Message), suci_error(book, Message) and others.

suci_open(Node, Options0) :-
    must_be(list, Options0),
    must_be(var, Node),
    (   select_option(book(Book), Options0, Options1)
    ->  book_lines(Book, Text),
        Options2 = [book(Text)|Options1]
    ;   Options2 = Options0
    ),
    (   option(threads(_), Options2)
    ->  Options = Options2
    ;   Options = [threads(1)|Options2]
    ),
    node_open(Node, Options).

%   book_lines(+Book, -Text): a list of ID-Address, or text.

book_lines(Pairs, Text) :-
    is_list(Pairs),
    !,
    findall(Line, book_line(Pairs, Line), Lines),
    atomics_to_string(Lines, Text).
book_lines(Text, Text).

book_line(Pairs, Line) :-
    member(Pair, Pairs),
    (   Pair = ID-Address
    ->  must_be(nonneg, ID),
        format(string(Line), '~d ~w\n', [ID, Address])
    ;   type_error(pair, Pair)
    ).

%!  suci_close(+Node) is det.
%!  suci_close(+Node, +Options) is det.
%
%   Closes the node: waits until every peer has everything and knows of the end. Received messages
%   that were not taken are lost. Options:
%
%     - patience(+Seconds)
%       How long it waits at most; default 5.
%
%   @error suci_error(not_flushed, Message) if some did not get everything. The node is closed all
%   the same.

suci_close(Node) :-
    suci_close(Node, []).

suci_close(Node, Options) :-
    option(patience(Patience), Options, 5),
    node_close(Node, Patience).

%!  is_suci_node(@Term) is semidet.
%
%   True if Term is a node that is open.

is_suci_node(Term) :-
    node_is_open(Term).

%!  suci_node_property(+Node, ?Property) is nondet.
%
%   Property is one of id(ID), address(Address), threads(Count), peer_limit(Peers), the number of
%   peers that the socket's receive buffer serves, and warning(Text), the setting of the system that
%   keeps the node from working well, if there is one.

suci_node_property(Node, Property) :-
    node_info(Node, ID, Address, Threads, Limit, Warning),
    (   Warning == ""
    ->  Warnings = []
    ;   Warnings = [warning(Warning)]
    ),
    Properties = [id(ID), address(Address), threads(Threads), peer_limit(Limit)|Warnings],
    (   var(Property)
    ->  member(Property, Properties)
    ;   memberchk(Property, Properties)
    ).

%!  suci_counters(+Node, -Counters:dict) is det.
%
%   The counters of the node since it was opened, by the names of `suci_counters` in suci.h.
%   `Counters.sockets` is a dict of the counters of its sockets. Its `recv_drops` are datagrams
%   that the kernel dropped because the receive buffer was full.

suci_counters(Node, Counters) :-
    node_counters(Node, Pairs, SocketPairs),
    dict_pairs(Sockets, suci_socket, SocketPairs),
    dict_pairs(Counters, suci_node, [sockets-Sockets|Pairs]).

                 /*******************************
                 *           SENDING            *
                 *******************************/

%!  suci_send(+Node, +Peer, +Term) is det.
%!  suci_send(+Node, +Peer, +Term, +Options) is det.
%
%   Sends Term to the node with ID Peer. Returns when the library has accepted the message. Options:
%
%     - as(+Form)
%       `term` (default), `fast`, `string` or `bytes`: see the top of this page. Term may also be a
%       packet of datagram_new_packet/3, which has its form already.
%     - timeout(+Limit)
%       How long to wait while the send queue to the peer is full; default `infinite`.
%     - channel(+Channel)
%       0 (default) to 16,777,215. Channels do not block one another.
%     - tag(+Integer), kind(+Kind), user_header(+Bytes)
%       64 bits, 128 to 255, and at most 255 bytes that the receiver sees beside the term.
%     - cookie(+Integer), notify(+Boolean)
%       With notify(true) a delivered or not_delivered event of suci_next/3 tells of the message,
%       with its cookie.
%     - deadline(+Seconds)
%       The message is dropped if none of it was sent within that time.

suci_send(Node, Peer, Term) :-
    suci_send(Node, Peer, Term, []).

suci_send(Node, Peer, Term, Options) :-
    payload(Term, Options, Payload),
    node_send(Node, Peer, Payload, Options).

%!  suci_broadcast(+Node, +Peers:list, +Term, +Options) is det.
%
%   Sends Term to each of Peers without waiting; it becomes bytes only once. Options as for
%   suci_send/4, and:
%
%     - failed(-List)
%       A list of Peer-Code of the peers for which the message was not accepted; then the other
%       messages are sent and there is no error.
%
%   @error suci_error(not_all, List) if there is no such option and some were not accepted.

suci_broadcast(Node, Peers, Term, Options) :-
    payload(Term, Options, Payload),
    node_broadcast(Node, Peers, Payload, Options, Failed),
    (   option(failed(Wanted), Options)
    ->  Wanted = Failed
    ;   Failed == []
    ->  true
    ;   throw(error(suci_error(not_all, Failed), _))
    ).

%!  suci_flush(+Node, +Timeout) is det.
%
%   Waits until every accepted message is acknowledged.
%
%   @error suci_error(not_flushed, Message) at the limit, or if a session ended before.

suci_flush(Node, Timeout) :-
    node_flush(Node, Timeout).

%!  suci_reply(+Node, +Request, +Reply) is det.
%!  suci_reply(+Node, +Request, +Reply, +Options) is det.
%
%   Answers a request, which suci_next/3 or the option request(Request) of suci_recv/4 gave. The
%   first reply counts. Options as for suci_send/4: as, timeout, kind, user_header.

suci_reply(Node, Request, Reply) :-
    suci_reply(Node, Request, Reply, []).

suci_reply(Node, Request, Reply, Options) :-
    payload(Reply, Options, Payload),
    node_reply(Node, Request, Payload, Options).

%!  suci_call(+Node, +Peer, +Request, -Reply) is det.
%!  suci_call(+Node, +Peer, +Request, -Reply, +Options) is det.
%
%   Sends Request and waits for the reply of the peer's program. Options: as(Form) for both,
%   timeout(Limit), channel(Channel), user_header(Bytes).
%
%   @error timeout_error(suci, Peer) at the limit; a reply that comes later is dropped.
%   @error suci_error(ended, Message), suci_error(process_died, Message) if the peer is gone.

suci_call(Node, Peer, Request, Reply) :-
    suci_call(Node, Peer, Request, Reply, []).

suci_call(Node, Peer, Request, Reply, Options) :-
    payload(Request, Options, Payload),
    received_form(Options, Form),
    node_call(Node, Peer, Payload, Options, Form, Message),
    message_term(Message, Term),
    Reply = Term.

                 /*******************************
                 *          RECEIVING           *
                 *******************************/

%!  suci_recv(+Node, ?Peer, -Term) is det.
%!  suci_recv(+Node, ?Peer, -Term, +Options) is semidet.
%
%   Takes the next message. If Peer is an integer, takes the next one of that peer; others keep
%   their order and wait. Fails when the time limit is over. Options:
%
%     - timeout(+Limit)
%       Default `infinite`.
%     - as(+Form)
%       `term` (default), `string` or `bytes`: see the top of this page.
%     - channel(?Channel)
%       The channel. If it is an integer, takes messages on that channel only.
%     - request(-Request)
%       The request for suci_reply/4, or `none` if the sender waits for no reply.
%     - tag(-Tag), kind(-Kind), user_header(-Bytes), session(-Session), number(-Number)
%       The sender's tag, kind and header; the session, and the number on the channel.
%
%   A message that does not unify with Term is lost, as with read/1.
%
%   @error syntax_error(Why) with the context suci_message(Peer, Payload) if the message holds no
%   term. The next call takes the next message.

suci_recv(Node, Peer, Term) :-
    suci_recv(Node, Peer, Term, []).

suci_recv(Node, Peer, Term, Options) :-
    check_receive_options(Options),
    option(timeout(Timeout), Options, infinite),
    option(channel(Channel), Options, _),
    received_form(Options, Form),
    node_recv(Node, Peer, Channel, Timeout, Form, Message),
    message_term(Message, Read),
    arg(1, Message, Peer),
    message_properties(Options, Message),
    Term = Read.

%!  suci_next(+Node, -Item) is det.
%!  suci_next(+Node, -Item, +Options) is semidet.
%
%   Takes the next message or event, in exact order. Fails when the time limit is over. Options as
%   for suci_recv/4. Item is one of
%
%     - message(Peer, Term)
%     - request(Peer, Term, Request)
%       A message that suci_reply/4 answers.
%     - event(Peer, Event)
%       Something that happened to a peer or a message. Event is one of
%       - up(Session)
%       - lost(Why)
%         Silent; undone by `up`. Why is `no_answer`, `port`, `host`, `network`, `prohibited`,
%         `other`, `process_died` or refused(Reason).
%       - quiet
%       - suspended(Side), resumed(Side)
%         Side is `here` or `there`.
%       - ended(Reason, Session, Outcomes)
%         The session is over, after its last message. Reason is `closed`, cut_short(Missing),
%         `closed_here`, `restarted`, `reset`, `peer_ended`, `silent`, `process_died`,
%         protocol(Code) or peer_protocol(Code). Outcomes is a list of
%         outcome(Channel, Number, Cookie, Fate) of the messages that were under way; Fate is
%         `delivered`, `not_delivered` or `unknown`.
%       - delivered(Channel, Number, Cookie)
%       - not_delivered(Channel, Number, Cookie, Reason)
%         Reason is an integer of the receiver, `cancelled` or `expired`.
%       - writable(Class)
%       - incoming(Channel, Number, Length, Tag, Kind, UserHeader)
%         A message longer than max_message waits for suci_accept/4 or suci_refuse/5.
%       - channel_finished(Channel)
%       - refused(Reason)

suci_next(Node, Item) :-
    suci_next(Node, Item, []).

suci_next(Node, Item, Options) :-
    check_receive_options(Options),
    option(timeout(Timeout), Options, infinite),
    received_form(Options, Form),
    node_next(Node, Timeout, Form, Message),
    next_item(Message, Options, Item).

next_item(event(Peer, Event), _, event(Peer, Event)) :-
    !.
next_item(Message, Options, Item) :-
    message_term(Message, Term),
    arg(1, Message, Peer),
    message_property(request(Request), Message),
    message_properties(Options, Message),
    (   Request == none
    ->  Item = message(Peer, Term)
    ;   Item = request(Peer, Term, Request)
    ).

%!  suci_accept(+Node, +Peer, +Channel, +Number) is det.
%!  suci_refuse(+Node, +Peer, +Channel, +Number, +Reason) is det.
%
%   Answers an `incoming` event: lets the long message come, or tells its sender the integer Reason.

suci_accept(Node, Peer, Channel, Number) :-
    peer_answer(Node, Peer, Channel, Number, accept).

suci_refuse(Node, Peer, Channel, Number, Reason) :-
    peer_answer(Node, Peer, Channel, Number, refuse(Reason)).

%   check_receive_options(+Options): a wrong option is told before a message is taken.

check_receive_options(Options) :-
    must_be(list, Options),
    forall(member(Option, Options),
           (   compound(Option),
               functor(Option, Name, 1),
               receive_option(Name)
           ->  true
           ;   domain_error(suci_receive_option, Option)
           )).

receive_option(timeout).
receive_option(as).
receive_option(channel).
receive_option(tag).
receive_option(kind).
receive_option(session).
receive_option(number).
receive_option(user_header).
receive_option(request).

%   message_properties(+Options, +Message): unifies the options that ask for something.

message_properties([], _).
message_properties([Option|Options], Message) :-
    functor(Option, Name, 1),
    functor(Property, Name, 1),
    (   message_property(Property, Message)
    ->  Option = Property
    ;   true
    ),
    message_properties(Options, Message).

message_property(channel(Channel), Message) :-
    arg(4, Message, Channel).
message_property(tag(Tag), Message) :-
    arg(5, Message, Tag).
message_property(kind(Kind), Message) :-
    arg(6, Message, Kind).
message_property(session(Session), Message) :-
    arg(7, Message, Session).
message_property(number(Number), Message) :-
    arg(8, Message, Number).
message_property(user_header(Header), Message) :-
    arg(9, Message, Header).
message_property(request(Request), Message) :-
    (   arg(10, Message, true)
    ->  Request = suci_request(Peer, Channel, Tag, Kind),
        arg(1, Message, Peer),
        arg(4, Message, Channel),
        arg(5, Message, Tag),
        arg(6, Message, Kind)
    ;   Request = none
    ).

                 /*******************************
                 *            PEERS             *
                 *******************************/

%!  suci_add_peer(+Node, +Peer, +Address) is det.
%
%   Says where the node with ID Peer is: a numeric `address:port`.

suci_add_peer(Node, Peer, Address) :-
    peer_add(Node, Peer, Address).

%!  suci_remove_peer(+Node, +Peer) is det.
%
%   Forgets a peer; its session ends at once.

suci_remove_peer(Node, Peer) :-
    peer_remove(Node, Peer).

%!  suci_peers(+Node, -Peers) is det.
%
%   Peers is a list of peer(ID, Link, Address). Link is `idle`, `connecting`, `up`, `lost` or
%   `quiet`; Address is `''` if it is not known.

suci_peers(Node, Peers) :-
    node_peers(Node, Peers).

%!  suci_peer_stats(+Node, +Peer, -Stats:dict) is det.
%
%   State and counters of a peer, by the names of `suci_peer_stats` in suci.h; times are seconds.

suci_peer_stats(Node, Peer, Stats) :-
    peer_stats(Node, Peer, Pairs),
    selectchk(waits-Waits0, Pairs, Others),
    dict_pairs(Waits, suci_waits, Waits0),
    dict_pairs(Stats, suci_peer, [waits-Waits|Others]).

%!  suci_set_peer(+Node, +Peer, +Options) is det.
%
%   Changes settings of a peer, at any time. Options not named keep their value.
%
%     - mode(+Mode)
%       `throughput`, `response` or `adaptive`.
%     - manual_retransmission(+Boolean)
%       With `true`, lost messages go again only by suci_retransmit/2.
%     - controller(+Name), controller_window(+Bytes), rate_cap(+Bytes), priority_class(+0..7),
%       priority_weight(+1..255), keep_alive(+Boolean), silence_timeout(+Seconds),
%       give_up_after(+Seconds)

suci_set_peer(Node, Peer, Options) :-
    peer_set(Node, Peer, Options).

%!  suci_connect(+Node, +Peer) is det.
%
%   Opens a connection before there is anything to send.

suci_connect(Node, Peer) :-
    peer_connect(Node, Peer).

%!  suci_suspend(+Node, +Peer) is det.
%!  suci_resume(+Node, +Peer) is det.
%
%   Holds back all messages to and from a peer, and undoes that. What was accepted is kept;
%   meanwhile sending fails on both sides with permission_error(send, suci_peer, Peer).

suci_suspend(Node, Peer) :-
    peer_suspend(Node, Peer).

suci_resume(Node, Peer) :-
    peer_resume(Node, Peer).

%!  suci_retransmit(+Node, +Peer) is det.
%
%   Sends everything again that is not acknowledged, for manual_retransmission(true).

suci_retransmit(Node, Peer) :-
    peer_retransmit(Node, Peer).

%!  suci_reset(+Node, +Peer) is det.
%
%   Gives the session with a peer up at once.

suci_reset(Node, Peer) :-
    peer_reset(Node, Peer).

%!  suci_close_peer(+Node, +Peer, +Patience) is det.
%
%   Closes the session with a peer in the background: once it has everything, or after Patience.

suci_close_peer(Node, Peer, Patience) :-
    peer_close(Node, Peer, Patience).

%!  suci_queue(+Node, +Peer, -Messages, -Bytes) is det.
%
%   How many messages to a peer are accepted and not yet acknowledged, and their bytes.

suci_queue(Node, Peer, Messages, Bytes) :-
    peer_queue(Node, Peer, Messages, Bytes).

%!  suci_window(+Node, +Peer, +Channel, -Bytes) is det.
%
%   The bytes that a peer would take now as one message on Channel; 0 while it is not connected.

suci_window(Node, Peer, Channel, Bytes) :-
    peer_window(Node, Peer, Channel, Bytes).

%!  suci_env_id(-ID) is semidet.
%!  suci_env_size(-Count) is semidet.
%
%   The node ID of this process and the number of processes, as `suci run` gave them. Fail in a
%   process that it did not start.

suci_env_id(ID) :-
    env_id(ID).

suci_env_size(Count) :-
    env_size(Count).

%!  suci_version(-Version:atom) is det.
%
%   The version of libsuci.

suci_version(Version) :-
    library_version(Version).

:- multifile prolog:error_message//1.

prolog:error_message(suci_error(Code, Message)) -->
    [ 'Suci: ~w (~w)'-[Message, Code] ].
