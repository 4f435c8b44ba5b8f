/*  The node in Prolog of three that are written in Rust, C and Prolog: see README.md.

    SPDX-License-Identifier: MIT OR Apache-2.0
*/

:- use_module(library(lists)).
:- use_module(library(main)).
:- use_module(library(suci)).

:- initialization(main, main).

main(_) :-
    suci_open(Node, []),
    suci_env_id(Me),
    suci_env_size(Size),
    Last is Size - 1,
    findall(Other, (between(0, Last, Other), Other =\= Me), Others),
    forall(( member(To, Others), content(Me, To, Text) ),
           suci_send(Node, To, Text, [as(string)])),
    forall(( member(From, Others), content(From, Me, Text) ),
           expect(Node, From, Text)),
    suci_close(Node, [patience(20)]),
    format("node ~d in Prolog: all messages are right~n", [Me]).

expect(Node, From, Expected) :-
    (   suci_recv(Node, From, Text, [as(string), timeout(20)])
    ->  true
    ;   throw(error(timeout_error(recv, From), _))
    ),
    (   Text == Expected
    ->  true
    ;   throw(error(domain_error(expected_message, From), _))
    ).

%   content(+From, +To, -Text): the short message, then the long one: 1 MiB, numbered lines of 16
%   bytes.

content(From, To, Text) :-
    format(string(Text), "short from ~d to ~d", [From, To]).
content(From, To, Text) :-
    with_output_to(string(Text),
                   forall(between(0, 65535, Line),
                          format("~d>~d ~|~`0t~d~11+~n", [From, To, Line]))).
