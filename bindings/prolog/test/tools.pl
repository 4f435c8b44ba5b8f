/*  Helpers of the tests of library(suci).

    SPDX-License-Identifier: MIT OR Apache-2.0
*/

:- module(test_tools,
          [ with_pair/1,                % :Goal
            with_pair/2,                % :Goal, +Options
            caught/2,                   % :Goal, -Formal
            soon/3,                     % +Node, ?Peer, -Term
            soon/4,                     % +Node, ?Peer, -Term, +Options
            await_event/3,              % +Node, ?Peer, ?Event
            on_thread/2,                % :Goal, -Id
            join/1,                     % +Id
            until/1,                    % :Goal
            start_prolog/3,             % +Goal, -Pid, -Output
            shown_error/2               % +Error, -Text
          ]).
:- use_module(library(apply)).
:- use_module(library(debug)).
:- use_module(library(lists)).
:- use_module(library(process)).
:- use_module(library(suci)).

:- meta_predicate
    with_pair(2),
    with_pair(2, +),
    caught(0, -),
    on_thread(0, -),
    until(0).

%   with_pair(:Goal, +Options): calls Goal with two nodes, of which the second knows the first, and
%   closes them.

with_pair(Goal) :-
    with_pair(Goal, []).

with_pair(Goal, Options) :-
    setup_call_cleanup(
        pair(Zero, One, Options),
        call(Goal, Zero, One),
        maplist(close_if_open, [One, Zero])).

pair(Zero, One, Options) :-
    suci_open(Zero, [id(0), accept(anyone)|Options]),
    suci_node_property(Zero, address(Address)),
    suci_open(One, [id(1)|Options]),
    suci_add_peer(One, 0, Address).

close_if_open(Node) :-
    (   is_suci_node(Node)
    ->  catch(suci_close(Node, [patience(1)]), error(suci_error(not_flushed, _), _), true)
    ;   true
    ).

%   caught(:Goal, -Formal): the formal part of the error of Goal, or `none`.

caught(Goal, Formal) :-
    catch(( Goal, Formal = none ), error(Formal, _), true).

%   soon(+Node, ?Peer, -Term, +Options): receives within a time that only a fault exceeds.

soon(Node, Peer, Term) :-
    soon(Node, Peer, Term, []).

soon(Node, Peer, Term, Options) :-
    suci_recv(Node, Peer, Term, [timeout(10)|Options]).

%   await_event(+Node, ?Peer, ?Event): takes items until the event comes.

await_event(Node, Peer, Event) :-
    suci_next(Node, Item, [timeout(10)]),
    (   Item = event(Peer, Event)
    ->  true
    ;   await_event(Node, Peer, Event)
    ).

on_thread(Goal, Id) :-
    thread_create(Goal, Id, []).

join(Id) :-
    thread_join(Id, Status),
    assertion(Status == true).

%   until(:Goal): waits until Goal is true, for at most 10 s.

until(Goal) :-
    between(1, 1000, _),
    (   call(Goal)
    ->  true
    ;   sleep(0.01),
        fail
    ),
    !.

%   start_prolog(+Goal, -Pid, -Output): another Prolog process, with the library.

start_prolog(Goal, Pid, Output) :-
    current_prolog_flag(executable, Swipl),
    findall(Option, search_option(Option), Options0),
    append(Options0, Options),
    append(Options, ['-g', 'use_module(library(suci))', '-g', Goal, '-t', 'halt(1)'], Arguments),
    process_create(Swipl, Arguments,
                   [process(Pid), stdin(null), stdout(pipe(Output)), stderr(std)]).

search_option(['-p', Option]) :-
    member(Alias, [foreign, library]),
    user:file_search_path(Alias, Directory),
    atom(Directory),
    format(atom(Option), '~w=~w', [Alias, Directory]).

%   shown_error(+Error, -Text): what the toplevel would print.

shown_error(Error, Text) :-
    phrase('$messages':translate_message(Error), Lines),
    with_output_to(string(Text), print_message_lines(current_output, '', Lines)).
