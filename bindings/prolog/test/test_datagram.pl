/*  Tests of library(suci): the classic predicates.

    SPDX-License-Identifier: MIT OR Apache-2.0
*/

:- module(test_datagram, []).
:- use_module(library(plunit)).
:- use_module(library(suci)).
:- use_module(library(apply)).
:- use_module(library(debug)).
:- use_module(library(lists)).
:- use_module(tools).

%   with_sockets(:Goal): calls Goal with the sockets of nodes 1 and 2, which one thread drives.

:- meta_predicate with_sockets(2).

with_sockets(Goal) :-
    setup_call_cleanup(
        sockets(One, Two),
        call(Goal, One, Two),
        maplist(close_quietly, [One, Two])).

close_quietly(Socket) :-
    (   is_suci_node(Socket)
    ->  catch(suci_close(Socket, [patience(0.2)]), error(suci_error(not_flushed, _), _), true)
    ;   true
    ).

sockets(One, Two) :-
    datagram([], '127.0.0.1', 0, 1, One),
    suci_node_property(One, address(Address1)),
    datagram([1-Address1], '127.0.0.1', 0, 2, Two),
    suci_node_property(Two, address(Address2)),
    suci_add_peer(One, 2, Address2).

%   arrives(+From, +To, -ID, -Term): drives both ends until a message can be read.

arrives(From, To, ID, Term) :-
    until(( ignore(datagram_ready(From, 0, 0)), datagram_ready(To, 0, 1) )),
    datagram_read(To, ID, Term).

:- begin_tests(datagram).

test(addressdb, true(DB == [1-'127.0.0.1:7001', 2-'[::1]:7002'])) :-
    table("1 127.0.0.1:7001  # the first\n\n 2\t[::1]:7002\n", File),
    addressdb_lex(File, DB).

test(faulty_addressdb, true(sub_string(Message, _, _, _, Place))) :-
    table("1 127.0.0.1:7001\n2 nowhere\n", File),
    caught(addressdb_lex(File, _), suci_error(book, Message)),
    format(string(Place), "~w:2", [File]).

table(Text, File) :-
    tmp_file_stream(text, File, Stream),
    write(Stream, Text),
    close(Stream).

test(write_and_read) :-
    with_sockets(write_and_read).

write_and_read(One, Two) :-
    datagram_write(One, 2, hello(X, X, _)),
    assertion(\+ datagram_read(Two, _)),
    arrives(One, Two, ID, Term),
    assertion(ID == 1),
    assertion(Term =@= hello(X, X, _)),
    datagram_destination(Two, 1),
    datagram_write(Two, answer),
    datagram_write(Two, another),
    arrives(Two, One, 2, answer),
    arrives(Two, One, 2, another),
    drive(One, Two, datagram_queue_length(Two, 1, 0)),
    assertion(\+ datagram_ready(One, 0, 20)).

test(no_destination) :-
    with_sockets([One,_]>>( caught(datagram_write(One, x), Formal),
                            assertion(Formal == existence_error(suci_destination, One)) )).

test(state) :-
    with_sockets(state).

state(One, Two) :-
    datagram_state(One, 2, Idle),
    assertion(Idle == idle),
    datagram_write(One, 2, first),
    datagram_getdestbuf(One, 2, None),
    assertion(None == 0),
    arrives(One, Two, 1, first),
    drive(One, Two, datagram_state(One, 2, connected)),
    datagram_getdestbuf(One, 2, Size),
    assertion(Size > 1000),
    datagram_disconnect(One, 2),
    datagram_state(One, 2, Disconnected),
    assertion(Disconnected == disconnected),
    assertion(\+ datagram_write(One, 2, second)),
    drive(One, Two, datagram_state(Two, 1, disconnected_there)),
    assertion(\+ datagram_write(Two, 1, second)),
    datagram_reconnect(One, 2),
    drive(One, Two, datagram_state(Two, 1, connected)),
    datagram_write(One, 2, third),
    arrives(One, Two, 1, third).

%   Messages accepted before a disconnection are kept, and sent afterwards.

test(kept_while_disconnected) :-
    with_sockets(kept).

kept(One, Two) :-
    datagram_write(One, 2, first),
    datagram_disconnect(One, 2),
    forall(between(1, 20, _), drive_once(One, Two)),
    datagram_queue_length(One, 2, Length),
    assertion(Length == 1),
    assertion(\+ datagram_read(Two, _)),
    datagram_reconnect(One, 2),
    arrives(One, Two, 1, first).

:- meta_predicate drive(+, +, 0).

drive(One, Two, Goal) :-
    until(( drive_once(One, Two), Goal )).

drive_once(One, Two) :-
    ignore(datagram_ready(One, 0, 1)),
    ignore(datagram_ready(Two, 0, 1)).

test(through_and_rapid) :-
    with_sockets(through_and_rapid).

through_and_rapid(One, Two) :-
    forall(member(Predicate-Mode, [ datagram_through-throughput, datagram_rapid-response ]),
           ( call(Predicate, One, 2),
             datagram_write(One, 2, Mode),
             arrives(One, Two, 1, Mode),
             suci_peer_stats(One, 2, Here),
             assertion(Here.mode == Mode),
             drive(One, Two, ( suci_peer_stats(Two, 1, There), There.remote_mode == Mode )) )).

%   A third of the packets is lost. Nothing goes again before the program says so.

test(retransmission) :-
    datagram([], '127.0.0.1', 0, 2, Two),
    suci_node_property(Two, address(Address)),
    suci_open(One, [id(1), threads(0), book([2-Address]), listen('127.0.0.1:0'),
                    faults("loss=0.3,seed=7")]),
    suci_node_property(One, address(Back)),
    suci_add_peer(Two, 1, Back),
    call_cleanup(retransmission(One, Two), maplist(close_quietly, [One, Two])).

retransmission(One, Two) :-
    datagram_write(One, 2, first),
    arrives(One, Two, 1, first),
    suci_set_peer(One, 2, [manual_retransmission(true)]),
    numlist(1, 40, Numbers),
    forall(member(Number, Numbers),
           ( datagram_write(One, 2, Number), drive_once(One, Two) )),
    forall(between(1, 100, _), drive_once(One, Two)),
    datagram_queue_length(One, 2, Lost),
    assertion(Lost > 0),
    drive(One, Two, ( datagram_retransmission(One, 2), datagram_queue_length(One, 2, 0) )),
    findall(Number, ( member(_, Numbers), datagram_read(Two, 1, Number) ), Received),
    assertion(Received == Numbers).

test(acknowledge) :-
    with_sockets(acknowledge).

acknowledge(One, Two) :-
    datagram_write(One, 2, x),
    arrives(One, Two, 1, x),
    ack_sync(Two, 1),
    until(( ignore(datagram_ready(One, 0, 1)), datagram_queue_length(One, 2, 0) )).

test(packets) :-
    with_sockets(packets).

packets(One, Two) :-
    datagram_new_packet(One, first, First),
    numlist(1, 2000, List),
    datagram_new_packet(One, List, Second),
    datagram_packet_put(One, [First,Second], 2),
    datagram_packet_put(One, First, 1),
    datagram_packet_put(One, First, 2),
    %   Nothing is sent before datagram_ready/3.
    datagram_queue_length(One, 2, 0),
    assertion(\+ datagram_ready(Two, 0, 50)),
    garbage_collect_atoms,
    arrives_packet(One, Two, 1, first),
    arrives_packet(One, Two, 1, List),
    arrives_packet(One, Two, 1, first),
    arrives_packet(One, One, 1, first),
    caught(datagram_packet_put(One, hello, 2), Formal),
    assertion(Formal == type_error(suci_packet, hello)).

arrives_packet(From, To, ID, Term) :-
    until(( ignore(datagram_ready(From, 0, 0)), datagram_ready(To, 0, 1) )),
    datagram_packet_get(To, ID, Term).

%   A packet for an unknown node is told; one for a disconnected node waits and holds up no other.

test(packets_that_wait) :-
    with_sockets(packets_that_wait).

packets_that_wait(One, Two) :-
    datagram_write(One, 2, x),
    arrives(One, Two, 1, x),
    datagram_disconnect(One, 2),
    datagram_new_packet(One, kept, Kept),
    datagram_new_packet(One, also, Also),
    datagram_new_packet(One, other, Other),
    datagram_packet_put(One, [Kept,Also], 2),
    datagram_packet_put(One, Other, 9),
    datagram_packet_put(One, Other, 1),
    caught(datagram_ready(One, 0, 0), Formal),
    assertion(Formal == existence_error(suci_peer, 9)),
    arrives(One, One, 1, other),
    datagram_reconnect(One, 2),
    arrives(One, Two, 1, kept),
    arrives(One, Two, 1, also).

%   A short packet does not overtake a long one for which the send queue has no room.

test(packets_in_order) :-
    datagram([], '127.0.0.1', 0, 2, Two),
    suci_node_property(Two, address(Address)),
    suci_open(One, [id(1), threads(0), book([2-Address]), listen('127.0.0.1:0'),
                    send_queue(65536)]),
    suci_node_property(One, address(Back)),
    suci_add_peer(Two, 1, Back),
    call_cleanup(packets_in_order(One, Two), maplist(close_quietly, [One, Two])).

packets_in_order(One, Two) :-
    length(List, 20000),
    maplist(=(x), List),
    maplist(datagram_new_packet(One), [List, [last|List], short], Packets),
    datagram_packet_put(One, Packets, 2),
    arrives_packet(One, Two, 1, List),
    arrives_packet(One, Two, 1, [last|List]),
    arrives_packet(One, Two, 1, short).

test(ready_takes_events_only) :-
    with_sockets(ready_takes_events_only).

ready_takes_events_only(One, Two) :-
    datagram_write(One, 2, x),
    arrives(One, Two, 1, x),
    on_thread(datagram_ready(Two, 0, 500), Id),
    sleep(0.1),
    datagram_close(One),
    thread_join(Id, Status),
    assertion(Status == false).

test(ready_of_a_node_with_threads, error(suci_error(node_kind, _))) :-
    with_pair([Zero,_]>>datagram_ready(Zero, 0, 0)).

test(wrong_port, error(type_error(_, port))) :-
    datagram([], '127.0.0.1', port, 1, _).

:- end_tests(datagram).
