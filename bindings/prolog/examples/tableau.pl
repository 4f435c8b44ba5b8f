/*  Satisfiability of linear temporal logic by tableau, in several Prolog processes.

        swipl tableau.pl 'g(p -> f(q)) & f(p)'                       # one process
        suci run -n 4 -- swipl tableau.pl 'g(p -> f(q)) & f(p)'      # a master and three workers

    A state of the tableau is a set of formulas that hold at one moment. Worker processes share the
    states: the hash of a state says which worker expands it, so that none is expanded twice.
    Workers send the states that they find to their owners, all to all, and report to the master,
    process 0, which looks for a model in the complete graph. (`suci run --kill-on-failure` ends all
    if one ends.)

    Formulas: ~A, A & B, A v B, A -> B, x(A) (next), f(A) (some day), g(A) (ever after), u(A, B)
    (until), r(A, B) (release), true, false, and atoms.

    SPDX-License-Identifier: MIT OR Apache-2.0
*/

:- module(tableau, []).
:- use_module(library(apply)).
:- use_module(library(assoc)).
:- use_module(library(lists)).
:- use_module(library(main)).
:- use_module(library(ordsets)).
:- use_module(library(suci)).

:- op(200, fy, ~).
:- op(400, yfx, &).
:- op(500, yfx, v).

:- initialization(main, main).

main([Text]) :-
    !,
    term_string(Formula, Text, [module(tableau)]),
    normal(Formula, Normal),
    Root = [Normal],
    (   suci_env_size(Size),
        Size > 1
    ->  suci_env_id(ID),
        suci_open(Socket, [threads(0)]),
        Workers is Size - 1,
        part(ID, Socket, Workers, Root),
        suci_close(Socket)
    ;   empty_assoc(Empty),
        search([Root], Empty, Graph),
        answer(Graph, Root)
    ).
main(_) :-
    format(user_error, "usage: tableau.pl FORMULA~n", []),
    halt(2).

                 /*******************************
                 *           FORMULAS           *
                 *******************************/

%   normal(+Formula, -Normal): negation stands before atoms only; of the operators &, v, x, u and r
%   are left.

normal(~A, N) :- !, negated(A, N).
normal(A & B, NA & NB) :- !, normal(A, NA), normal(B, NB).
normal(A v B, NA v NB) :- !, normal(A, NA), normal(B, NB).
normal(A -> B, NA v NB) :- !, negated(A, NA), normal(B, NB).
normal(x(A), x(N)) :- !, normal(A, N).
normal(f(A), u(true, N)) :- !, normal(A, N).
normal(g(A), r(false, N)) :- !, normal(A, N).
normal(u(A, B), u(NA, NB)) :- !, normal(A, NA), normal(B, NB).
normal(r(A, B), r(NA, NB)) :- !, normal(A, NA), normal(B, NB).
normal(P, P) :- atom(P).

negated(~A, N) :- !, normal(A, N).
negated(A & B, NA v NB) :- !, negated(A, NA), negated(B, NB).
negated(A v B, NA & NB) :- !, negated(A, NA), negated(B, NB).
negated(A -> B, NA & NB) :- !, normal(A, NA), negated(B, NB).
negated(x(A), x(N)) :- !, negated(A, N).
negated(f(A), r(false, N)) :- !, negated(A, N).
negated(g(A), u(true, N)) :- !, negated(A, N).
negated(u(A, B), r(NA, NB)) :- !, negated(A, NA), negated(B, NB).
negated(r(A, B), u(NA, NB)) :- !, negated(A, NA), negated(B, NB).
negated(true, false) :- !.
negated(false, true) :- !.
negated(P, ~P) :- atom(P).

                 /*******************************
                 *           EXPANSION          *
                 *******************************/

%   expand(+State, -Edges): every edge(Next, Postponed) to a state that may follow. Postponed are
%   the formulas u(A, B) whose B did not come yet.

expand(State, Edges) :-
    findall(edge(Next, Postponed), step(State, Next, Postponed), Edges0),
    sort(Edges0, Edges).

step(State, Next, Postponed) :-
    hold(State, [], [], Next, [], Postponed).

%   hold(+Formulas, +Literals, +Next0, -Next, +Postponed0, -Postponed): one way to make all true.

hold([], _, Next, Next, Postponed, Postponed).
hold([F|Fs], Ls, N0, N, P0, P) :-
    hold(F, Fs, Ls, N0, N, P0, P).

hold(true, Fs, Ls, N0, N, P0, P) :- !, hold(Fs, Ls, N0, N, P0, P).
hold(false, _, _, _, _, _, _) :- !, fail.
hold(A & B, Fs, Ls, N0, N, P0, P) :- !, hold([A,B|Fs], Ls, N0, N, P0, P).
hold(A v B, Fs, Ls, N0, N, P0, P) :-
    !,
    (   hold([A|Fs], Ls, N0, N, P0, P)
    ;   hold([B|Fs], Ls, N0, N, P0, P)
    ).
hold(x(A), Fs, Ls, N0, N, P0, P) :-
    !,
    ord_add_element(N0, A, N1),
    hold(Fs, Ls, N1, N, P0, P).
hold(u(A, B), Fs, Ls, N0, N, P0, P) :-
    !,
    (   hold([B|Fs], Ls, N0, N, P0, P)
    ;   ord_add_element(N0, u(A, B), N1),
        ord_add_element(P0, u(A, B), P1),
        hold([A|Fs], Ls, N1, N, P1, P)
    ).
hold(r(A, B), Fs, Ls, N0, N, P0, P) :-
    !,
    (   hold([A,B|Fs], Ls, N0, N, P0, P)
    ;   ord_add_element(N0, r(A, B), N1),
        hold([B|Fs], Ls, N1, N, P0, P)
    ).
hold(Literal, Fs, Ls, N0, N, P0, P) :-
    (   Literal = ~Opposite
    ->  true
    ;   Opposite = ~Literal
    ),
    \+ ord_memberchk(Opposite, Ls),
    ord_add_element(Ls, Literal, Ls1),
    hold(Fs, Ls1, N0, N, P0, P).

                 /*******************************
                 *           WORKERS            *
                 *******************************/

%   part(+ID, +Socket, +Workers, +Root): the master looks for a model, workers expand.

part(0, Socket, Workers, Root) :-
    !,
    %   The end is short and urgent; reports and states are many.
    forall(between(1, Workers, Worker), datagram_rapid(Socket, Worker)),
    owner(Root, Workers, Owner),
    datagram_write(Socket, Owner, state(Root)),
    list_to_assoc([Root-unknown], Graph),
    collect(Socket, 1, Graph, Complete),
    forall(between(1, Workers, Worker), datagram_write(Socket, Worker, stop)),
    forall(between(1, Workers, _), await(Socket, stopped)),
    forall(between(1, Workers, Worker), datagram_write(Socket, Worker, close)),
    answer(Complete, Root).
part(ID, Socket, Workers, _) :-
    forall(( between(0, Workers, Other), Other =\= ID ), datagram_through(Socket, Other)),
    empty_assoc(Seen),
    work(Socket, Workers, Seen, 0, Expanded),
    stop(Socket),
    format(user_error, "worker ~d expanded ~D states~n", [ID, Expanded]).

%   stop(+Socket): ends together with the others. States that their owners saw before may still be
%   on their way: nobody closes before all of them have arrived.

stop(Socket) :-
    ignore(datagram_ready(Socket, 0, 0)),
    suci_flush(Socket, 60),
    datagram_write(Socket, 0, stopped),
    await(Socket, close).

%   await(+Socket, +Message): reads until Message comes.

await(Socket, Message) :-
    (   datagram_read(Socket, _, Read)
    ->  (   Read == Message
        ->  true
        ;   await(Socket, Message)
        )
    ;   ignore(datagram_ready(Socket, 1, 0)),
        await(Socket, Message)
    ).

owner(State, Workers, Owner) :-
    variant_sha1(State, Hash),
    sub_atom(Hash, 0, 7, _, Digits),
    atom_concat('0x', Digits, Hex),
    atom_number(Hex, Number),
    Owner is Number mod Workers + 1.

%   work(+Socket, +Workers, +Seen, +Count0, -Count): expands states until the master says stop.

work(Socket, Workers, Seen, Count0, Count) :-
    (   datagram_read(Socket, _, Message)
    ->  work(Message, Socket, Workers, Seen, Count0, Count)
    ;   %   Nothing is left to do: the packets leave, and others come.
        ignore(datagram_ready(Socket, 1, 0)),
        work(Socket, Workers, Seen, Count0, Count)
    ).

work(stop, _, _, _, Count, Count).
work(state(State), Socket, Workers, Seen0, Count0, Count) :-
    (   get_assoc(State, Seen0, _)
    ->  work(Socket, Workers, Seen0, Count0, Count)
    ;   put_assoc(State, Seen0, true, Seen),
        expand(State, Edges),
        report(Socket, Workers, State, Edges),
        Count1 is Count0 + 1,
        work(Socket, Workers, Seen, Count1, Count)
    ).

%   report(+Socket, +Workers, +State, +Edges): tells the owners of the states that follow, and the
%   master. datagram_ready/3 sends the packets of several states together.

report(Socket, Workers, State, Edges) :-
    findall(Next, member(edge(Next, _), Edges), Nexts0),
    sort(Nexts0, Nexts),
    forall(member(Next, Nexts),
           ( owner(Next, Workers, Owner),
             put(Socket, state(Next), Owner) )),
    put(Socket, expanded(State, Edges), 0).

put(Socket, Message, To) :-
    datagram_new_packet(Socket, Message, Packet),
    datagram_packet_put(Socket, Packet, To).

%   collect(+Socket, +Missing, +Graph0, -Graph): Missing states were named and are not expanded.

collect(_, 0, Graph, Graph) :-
    !.
collect(Socket, Missing0, Graph0, Graph) :-
    (   datagram_read(Socket, _, expanded(State, Edges))
    ->  put_assoc(State, Graph0, Edges, Graph1),
        Missing1 is Missing0 - 1,
        %   A report may come before that of the state which led to it.
        (   get_assoc(State, Graph0, unknown)
        ->  Missing2 = Missing1
        ;   Missing2 is Missing1 + 1
        ),
        foldl(name_state, Edges, Graph1-Missing2, Graph2-Missing),
        collect(Socket, Missing, Graph2, Graph)
    ;   ignore(datagram_ready(Socket, 1, 0)),
        collect(Socket, Missing0, Graph0, Graph)
    ).

name_state(edge(Next, _), Graph0-Missing0, Graph-Missing) :-
    (   get_assoc(Next, Graph0, _)
    ->  Graph-Missing = Graph0-Missing0
    ;   put_assoc(Next, Graph0, unknown, Graph),
        Missing is Missing0 + 1
    ).

%   search(+Agenda, +Graph0, -Graph): the same in one process.

search([], Graph, Graph).
search([State|Agenda], Graph0, Graph) :-
    (   get_assoc(State, Graph0, _)
    ->  search(Agenda, Graph0, Graph)
    ;   expand(State, Edges),
        put_assoc(State, Graph0, Edges, Graph1),
        findall(Next, member(edge(Next, _), Edges), Nexts),
        append(Nexts, Agenda, Agenda1),
        search(Agenda1, Graph1, Graph)
    ).

                 /*******************************
                 *            MODELS            *
                 *******************************/

%   answer(+Graph, +Root): prints whether a model begins at Root: a path for ever on which no
%   formula u(A, B) is postponed for ever.

answer(Graph, Root) :-
    assoc_to_keys(Graph, States),
    findall(Until, ( gen_assoc(_, Graph, Edges), member(edge(_, Postponed), Edges),
                     member(Until, Postponed) ), Untils0),
    sort(Untils0, Untils),
    fair(States, Graph, Untils, Fair),
    length(States, Count),
    (   ord_memberchk(Root, Fair)
    ->  Verdict = satisfiable
    ;   Verdict = unsatisfiable
    ),
    format("~w, ~D states~n", [Verdict, Count]).

%   fair(+States, +Graph, +Untils, -Fair): the greatest set of states from each of which, for each
%   Until, an edge that does not postpone it can be reached within the set (Emerson and Lei 1986).

fair(States, Graph, Untils, Fair) :-
    foldl(keep(Graph), [none|Untils], States, Kept),
    (   Kept == States
    ->  Fair = States
    ;   fair(Kept, Graph, Untils, Fair)
    ).

keep(Graph, Until, States, Kept) :-
    include(has_edge(Graph, Until, States), States, Begin),
    reach(Begin, Graph, States, Kept).

reach(Reached, Graph, States, Kept) :-
    ord_subtract(States, Reached, Others),
    include(has_edge(Graph, none, Reached), Others, New),
    (   New == []
    ->  Kept = Reached
    ;   ord_union(Reached, New, Reached1),
        reach(Reached1, Graph, States, Kept)
    ).

%   has_edge(+Graph, +Until, +Targets, +State): an edge of State to one of Targets does not
%   postpone Until.

has_edge(Graph, Until, Targets, State) :-
    get_assoc(State, Graph, Edges),
    member(edge(Next, Postponed), Edges),
    \+ ord_memberchk(Until, Postponed),
    ord_memberchk(Next, Targets),
    !.
