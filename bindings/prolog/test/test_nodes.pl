/*  Tests of library(suci): nodes, peers, errors, threads and signals.

    SPDX-License-Identifier: MIT OR Apache-2.0
*/

:- module(test_nodes, []).
:- use_module(library(plunit)).
:- use_module(library(pldoc)).
:- use_module(library(pldoc/doc_process)).
:- doc_collect(true).
:- use_module(library(suci)).
:- use_module(library(debug)).
:- use_module(library(lists)).
:- use_module(library(process)).
:- use_module(library(readutil)).
:- use_module(library(time)).
:- use_module(tools).

%   reopen(+Address): nobody has the address.

reopen(Address) :-
    suci_open(Node, [id(7), listen(Address)]),
    suci_close(Node).

:- begin_tests(nodes).

test(open_and_close) :-
    suci_open(Node, [id(7)]),
    assertion(is_suci_node(Node)),
    findall(Property, suci_node_property(Node, Property), Properties),
    assertion(memberchk(id(7), Properties)),
    assertion(memberchk(threads(1), Properties)),
    suci_close(Node),
    assertion(\+ is_suci_node(Node)).

test(no_node, error(type_error(suci_node, node))) :-
    suci_send(node, 1, hello).

test(unbound_node, error(instantiation_error)) :-
    suci_send(_, 1, hello).

test(closed_node) :-
    suci_open(Node, [id(7)]),
    suci_close(Node),
    forall(member(Goal, [ suci_send(Node, 1, a), suci_recv(Node, _, _), suci_close(Node),
                          suci_next(Node, _), suci_peers(Node, _), suci_call(Node, 1, a, _),
                          suci_flush(Node, 0), datagram_read(Node, _),
                          datagram_new_packet(Node, a, _) ]),
           ( caught(Goal, Formal),
             assertion(Formal == existence_error(suci_node, Node)) )).

test(unknown_option, error(domain_error(suci_open_option, colour(red)))) :-
    suci_open(_, [id(7), colour(red)]).

test(wrong_value, error(type_error(integer, many))) :-
    suci_open(_, [id(7), max_peers(many)]).

test(negative_id, error(domain_error(unsigned_32_bit_integer, -1))) :-
    suci_open(_, [id(-1)]).

test(wrong_name, error(domain_error(mode, fast))) :-
    suci_open(_, [id(7), mode(fast)]).

test(partial_options, error(_)) :-
    suci_open(_, [id(7)|_]).

test(wrong_address, error(_)) :-
    suci_open(_, [id(7), listen('nowhere')]).

test(address_in_use, [ setup(suci_open(Node, [id(7)])), cleanup(suci_close(Node)),
                       error(suci_error(address_in_use, _)) ]) :-
    suci_node_property(Node, address(Address)),
    suci_open(_, [id(8), listen(Address)]).

test(beyond_loopback, error(suci_error(insecure, _))) :-
    suci_open(_, [id(7), listen('0.0.0.0:0')]).

test(wrong_book, error(suci_error(book, _))) :-
    suci_open(_, [id(7), book("7 127.0.0.1:x\n")]).

test(book_of_pairs, Peers == [peer(8, idle, '127.0.0.1:9')]) :-
    suci_open(Node, [id(7), listen('127.0.0.1:0'), book([8-'127.0.0.1:9'])]),
    suci_peers(Node, Peers),
    suci_close(Node).

test(errors_are_shown) :-
    catch(suci_open(_, [id(7), listen('0.0.0.0:0')]), Error, true),
    shown_error(Error, Text),
    assertion(sub_string(Text, _, _, _, "(insecure)")),
    assertion(sub_string(Text, _, _, _, "0.0.0.0")).

%   PlDoc finds a description of every predicate, with modes of as many arguments.

test(documentation) :-
    forall(( member(Module, [suci, suci_datagram]),
             module_property(Module, exports(Exports)),
             member(Name/Arity, Exports),
             functor(Head, Name, Arity),
             predicate_property(Module:Head, implementation_module(Module)) ),
           assertion(documented(Module, Name/Arity))).

documented(Module, Indicator) :-
    doc_comment(Module:Indicator, _, Summary, _),
    Summary \== "".

test(version) :-
    suci_version(Version),
    assertion(atom(Version)).

test(garbage_collection_closes) :-
    on_thread(open_and_forget(address), Id),
    thread_join(Id, exited(Address)),
    garbage_collect_atoms,
    %   The port is free if the node was closed.
    until(\+ caught(reopen(Address), suci_error(address_in_use, _))).

open_and_forget(address) :-
    suci_open(Node, [id(7)]),
    suci_node_property(Node, address(Address)),
    thread_exit(Address).


%   Also while another thread waits.

test(halt_closes, [ forall(member(Before, [true, 'thread_create(suci_recv(N,_,_),_),sleep(0.1)'])),
                    setup(suci_open(Node, [id(0), accept(anyone)])), cleanup(suci_close(Node)),
                    true(Reason == closed) ]) :-
    suci_node_property(Node, address(Address)),
    format(atom(Goal),
           '(suci_open(N,[id(1)]),suci_add_peer(N,0,"~w"),suci_send(N,0,hi),suci_recv(N,0,_),\c
             ~w,halt)',
           [Address, Before]),
    start_prolog(Goal, Pid, Output),
    soon(Node, 1, hi),
    suci_send(Node, 1, bye),
    await_event(Node, 1, ended(Reason, _, [])),
    process_wait(Pid, Status),
    close(Output),
    assertion(Status == exit(0)).

:- end_tests(nodes).

:- begin_tests(peers).

test(unknown_peer, error(existence_error(suci_peer, 9))) :-
    with_pair([_,One]>>suci_send(One, 9, a)).

test(unknown_peer_of_stats, error(existence_error(suci_peer, 9))) :-
    with_pair([_,One]>>suci_peer_stats(One, 9, _)).

test(wrong_peer, error(type_error(integer, zero))) :-
    with_pair([_,One]>>suci_send(One, zero, a)).

test(wrong_peer_address, error(domain_error(suci_address, 'nowhere:1'))) :-
    with_pair([_,One]>>suci_add_peer(One, 9, 'nowhere:1')).

test(peers_and_stats) :-
    with_pair(peers_and_stats).

peers_and_stats(Zero, One) :-
    suci_node_property(Zero, address(Address)),
    suci_send(One, 0, hello),
    soon(Zero, 1, hello),
    suci_flush(One, 10),
    suci_peers(One, Peers),
    assertion(Peers == [peer(0, up, Address)]),
    suci_peer_stats(One, 0, Stats),
    assertion(Stats.messages_sent == 1),
    assertion(Stats.link == up),
    assertion(Stats.address == Address),
    suci_counters(One, Counters),
    assertion(Counters.messages_sent == 1),
    assertion(Counters.sockets.recv_drops == 0),
    suci_queue(One, 0, Messages, Bytes),
    assertion(Messages-Bytes == 0-0),
    suci_window(One, 0, 0, Window),
    assertion(Window > 1000),
    suci_remove_peer(One, 0),
    await_event(One, 0, ended(_, _, [])),
    caught(suci_send(One, 0, hello), Formal),
    assertion(Formal == existence_error(suci_peer, 0)).

test(settings) :-
    with_pair(settings).

settings(_, One) :-
    suci_set_peer(One, 0, [mode(throughput), keep_alive(true), silence_timeout(2.5)]),
    suci_peer_stats(One, 0, Stats),
    assertion(Stats.mode == throughput),
    caught(suci_set_peer(One, 0, [mode(slow)]), Formal1),
    assertion(Formal1 == domain_error(suci_mode, slow)),
    caught(suci_set_peer(One, 0, [silence_timeout(0.001)]), Formal2),
    assertion(Formal2 = suci_error(config, _)),
    caught(suci_set_peer(One, 0, [colour(red)]), Formal3),
    assertion(Formal3 == domain_error(suci_peer_option, colour(red))).

test(suspend_and_resume) :-
    with_pair(suspend_and_resume).

suspend_and_resume(Zero, One) :-
    suci_send(One, 0, first),
    soon(Zero, 1, first),
    suci_suspend(One, 0),
    caught(suci_send(One, 0, second), Formal),
    assertion(Formal == permission_error(send, suci_peer, 0)),
    await_event(Zero, 1, suspended(there)),
    suci_resume(One, 0),
    await_event(Zero, 1, resumed(there)),
    suci_send(One, 0, third),
    soon(Zero, 1, third).

test(close_peer, true(Reason == closed)) :-
    with_pair(close_peer(Reason)).

close_peer(Reason, Zero, One) :-
    suci_send(One, 0, last),
    suci_close_peer(One, 0, 5),
    soon(Zero, 1, last),
    await_event(Zero, 1, ended(Reason, _, _)).

test(reset, true(Fate-Cookie == not_delivered-3)) :-
    suci_open(Node, [id(1)]),
    suci_add_peer(Node, 0, '127.0.0.1:9'),
    suci_send(Node, 0, lost, [cookie(3), notify(true)]),
    suci_reset(Node, 0),
    await_event(Node, 0, ended(reset, _, Outcomes)),
    Outcomes = [outcome(0, _, Cookie, Fate)],
    suci_close(Node).

test(not_flushed, error(suci_error(not_flushed, _))) :-
    suci_open(Node, [id(1)]),
    suci_add_peer(Node, 0, '127.0.0.1:9'),
    suci_send(Node, 0, lost),
    call_cleanup(suci_flush(Node, 0.2),
                 catch(suci_close(Node, [patience(0)]), _, true)).

test(close_tells_what_is_lost) :-
    suci_open(Node, [id(1)]),
    suci_add_peer(Node, 0, '127.0.0.1:9'),
    suci_send(Node, 0, lost),
    caught(suci_close(Node, [patience(0)]), Formal),
    assertion(Formal = suci_error(not_flushed, _)),
    assertion(\+ is_suci_node(Node)).

:- end_tests(peers).

:- begin_tests(threads).

test(signal_ends_recv) :-
    with_pair(signal_ends(recv)).

test(signal_ends_next) :-
    with_pair(signal_ends(next)).

test(signal_ends_call) :-
    with_pair(signal_ends(call)).

test(signal_ends_recv_of_one_thread) :-
    with_pair(signal_ends(recv), [threads(0)]).

test(signal_ends_call_of_one_thread) :-
    with_pair(signal_ends(call), [threads(0)]).

%   The node is as good as before.
signal_ends(What, Zero, One) :-
    get_time(Begun),
    caught_time_limit(call_with_time_limit(0.2, waiting(What, One))),
    get_time(Ended),
    assertion(Ended - Begun < 2),
    suci_send(One, 0, after),
    until(( soon(Zero, 1, Term), Term == after )).

waiting(recv, Node) :-
    suci_recv(Node, _, _).
waiting(next, Node) :-
    suci_next(Node, event(_, never)).
waiting(call, Node) :-
    suci_call(Node, 0, question, _).

:- meta_predicate caught_time_limit(0).

caught_time_limit(Goal) :-
    catch(( Goal, Ball = none ), Ball, true),
    assertion(Ball == time_limit_exceeded).

test(signal_ends_close) :-
    suci_open(Node, [id(1)]),
    suci_add_peer(Node, 0, '127.0.0.1:9'),
    suci_send(Node, 0, lost),
    get_time(Begun),
    caught_time_limit(call_with_time_limit(0.2, suci_close(Node, [patience(20)]))),
    get_time(Ended),
    assertion(Ended - Begun < 2),
    assertion(\+ is_suci_node(Node)).

test(thread_signal_is_handled_while_waiting) :-
    with_pair(signal_and_go_on).

signal_and_go_on(Zero, One) :-
    thread_self(Main),
    on_thread(soon(Zero, 1, hello), Id),
    sleep(0.1),
    thread_signal(Id, thread_send_message(Main, handled)),
    thread_get_message(Main, handled, [timeout(5)]),
    suci_send(One, 0, hello),
    join(Id).

test(other_threads_run) :-
    with_pair(other_threads_run).

other_threads_run(Zero, One) :-
    on_thread(soon(Zero, 1, go), Id),
    numlist(1, 100000, List),
    sum_list(List, _),
    garbage_collect,
    garbage_collect_atoms,
    suci_send(One, 0, go),
    join(Id).

test(threads_share_a_node, true(Sum == 5050)) :-
    with_pair(share(Sum)).

share(Sum, Zero, One) :-
    findall(Id, ( between(1, 4, _), on_thread(receive(Zero), Id) ), Ids),
    forall(between(1, 100, I), suci_send(One, 0, I)),
    forall(between(1, 4, _), suci_send(One, 0, stop)),
    findall(Part, ( member(Id, Ids), thread_join(Id, exited(Part)) ), Parts),
    sum_list(Parts, Sum).

receive(Node) :-
    receive(Node, 0).

receive(Node, Sum0) :-
    soon(Node, _, Term),
    (   Term == stop
    ->  thread_exit(Sum0)
    ;   Sum is Sum0 + Term,
        receive(Node, Sum)
    ).

test(close_ends_waiting_threads, true(Formal == existence_error(suci_node, Node))) :-
    suci_open(Node, [id(7)]),
    on_thread(( caught(suci_recv(Node, _, _), F), thread_exit(F) ), Id),
    sleep(0.1),
    suci_close(Node),
    thread_join(Id, exited(Formal)).

%   A thread that handles a signal amid its call is not inside the library. suci_close/1 waits for
%   it: the port is free then.

test(close_waits_for_other_threads) :-
    suci_open(Node, [id(7), threads(0)]),
    suci_node_property(Node, address(Address)),
    thread_self(Main),
    on_thread(caught(suci_recv(Node, _, _), existence_error(suci_node, Node)), Id),
    sleep(0.2),
    thread_signal(Id, ( thread_send_message(Main, handling), sleep(0.3) )),
    thread_get_message(Main, handling, [timeout(5)]),
    suci_close(Node),
    reopen(Address),
    join(Id).

%   The wake that ends an interrupted call may reach another thread, which goes on waiting.

test(interrupted_calls_end_no_other_wait) :-
    with_pair(interrupt_beside_others).

interrupt_beside_others(Zero, One) :-
    findall(Id, ( between(1, 4, _), on_thread(soon(One, 0, hello), Id) ), Ids),
    forall(between(1, 5, _),
           caught_time_limit(call_with_time_limit(0.1, suci_call(One, 0, question, _)))),
    suci_recv(Zero, 1, question),
    forall(member(_, Ids), suci_send(Zero, 1, hello)),
    forall(member(Id, Ids), join(Id)).

test(busy, true(Formal = suci_error(busy, _))) :-
    suci_open(Node, [id(7), threads(0)]),
    on_thread(suci_recv(Node, _, _, [timeout(0.5)]), Id),
    until(( caught(suci_peers(Node, _), Formal), Formal \== none )),
    thread_join(Id, Status),
    assertion(Status == false),
    suci_close(Node).

:- end_tests(threads).
