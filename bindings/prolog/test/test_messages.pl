/*  Tests of library(suci): messages, their forms, requests, and what strangers may send.

    SPDX-License-Identifier: MIT OR Apache-2.0
*/

:- module(test_messages, []).
:- use_module(library(plunit)).
:- use_module(library(suci)).
:- use_module(library(apply)).
:- use_module(library(debug)).
:- use_module(library(lists)).
:- use_module(library(yall)).
:- use_module(tools).

%   An operator of this program. Canonical text has none, and readers do not know it.
:- op(700, xfx, user:(===>)).

:- begin_tests(terms).

sample(atom).
sample('Hello world').
sample('ü€😀').
sample('').
sample([]).
sample('[]').
sample({}).
sample("a string, \"quoted\"\n\\").
sample(0).
sample(-1).
sample(123456789012345678901234567890).
sample(1r3).
sample(0.1).
sample(-0.0).
sample(1.0e300).
sample(1.0Inf).
sample(f(_)).
sample(f(X, _, X)).
sample(1+2*(3-4)).
sample(1-(-1)).
sample(- 1).
sample(-(1)).
sample(-(-(a))).
sample(\+a).
sample((a:-b, c;d->e)).
sample(user:(a===>b)).
sample([a, b|c]).
sample([(:-), -, [-]]).
sample({a, b}).
sample('$VAR'(1)).
sample(f(',', '|', ;, !)).
sample('/*').
sample('a.b').
sample("").
sample(`codes`).
sample('\u0001\u200B').
sample(_{a:1, b:"x"}).
sample(point{x:1}).
sample(end_of_file).
sample(T) :-
    compound_name_arguments(T, f, []).
sample(List) :-
    numlist(1, 1000, List).

test(round_trip, forall(member(Options, [[], [as(fast)]]))) :-
    with_pair(round_trip(Options), [trust(true)]).

round_trip(Options, Zero, One) :-
    forall(sample(Term),
           ( suci_send(One, 0, Term, Options),
             soon(Zero, From, Received),
             assertion(From == 1),
             assertion(Received =@= Term) )).

test(trust_is_per_receiver, true(Term == plain)) :-
    with_pair({Term}/[Zero,One]>>( suci_send(One, 0, plain), soon(Zero, _, Term) )).

test(long_term, forall(member(Options, [[], [as(fast)]]))) :-
    numlist(1, 300000, List),
    with_pair({List,Options}/[Zero,One]>>
              ( on_thread(suci_send(One, 0, List, Options), Id),
                soon(Zero, 1, Received),
                join(Id),
                assertion(Received == List) ),
              [trust(true)]).

test(attributes_are_left_out) :-
    freeze(X, true),
    with_pair({X}/[Zero,One]>>( suci_send(One, 0, f(X, X)), soon(Zero, 1, Term),
                                Term = f(A, B),
                                assertion(A == B),
                                assertion(\+ attvar(A)) )).

test(stream, error(type_error(suci_term, Stream))) :-
    current_output(Stream),
    with_pair({Stream}/[_,One]>>suci_send(One, 0, f([Stream]))).

test(fast_stream, error(permission_error(fast_serialize, blob, Stream))) :-
    current_output(Stream),
    with_pair({Stream}/[_,One]>>suci_send(One, 0, f([Stream]), [as(fast)])).

test(cyclic, error(domain_error(_, _))) :-
    X = f(X),
    with_pair({X}/[_,One]>>suci_send(One, 0, X)).

test(fast_cyclic) :-
    X = f(X),
    with_pair({X}/[Zero,One]>>( suci_send(One, 0, X, [as(fast)]),
                                soon(Zero, 1, Term),
                                assertion(cyclic_term(Term)),
                                assertion(Term = f(Term)) ),
              [trust(true)]).

test(unknown_form, error(domain_error(suci_form, xml))) :-
    with_pair([_,One]>>suci_send(One, 0, a, [as(xml)])).

test(string, true(Text == "ü€\n")) :-
    with_pair({Text}/[Zero,One]>>( suci_send(One, 0, 'ü€\n', [as(string)]),
                                   soon(Zero, 1, Text, [as(string)]) )).

test(bytes, true(Codes == Sent)) :-
    numlist(0, 255, Sent),
    with_pair({Sent,Codes}/[Zero,One]>>( suci_send(One, 0, Sent, [as(bytes)]),
                                         soon(Zero, 1, Bytes, [as(bytes)]),
                                         string_codes(Bytes, Codes) )).

test(no_bytes, error(representation_error(_))) :-
    with_pair([_,One]>>suci_send(One, 0, "€", [as(bytes)])).

test(text_of_another_language, true(Term == answer(42, "x"))) :-
    with_pair({Term}/[Zero,One]>>( suci_send(One, 0, "answer(42, \"x\").\n", [as(string)]),
                                   soon(Zero, 1, Term) )).

test(canonical_text, true(Text == "===>(+(1,'A b'),[_A,\"s\"])")) :-
    with_pair({Text}/[Zero,One]>>( suci_send(One, 0, 1+'A b'===>[_, "s"]),
                                   soon(Zero, 1, Text0, [as(string)]),
                                   split_string(Text0, "", "", [Text1]),
                                   re_variable(Text1, Text) )).

%   The name of a variable is arbitrary.
re_variable(Text0, Text) :-
    sub_string(Text0, Before, _, _, "_"),
    sub_string(Text0, Comma, 1, After, ","),
    Comma > Before,
    !,
    sub_string(Text0, 0, Before, _, Head),
    sub_string(Text0, _, After, 0, Tail),
    string_concat(Head, "_A,", Begin),
    string_concat(Begin, Tail, Text).

:- end_tests(terms).

:- begin_tests(strangers).

%   hostile(-Text, ?Formal): what as(term) must refuse, and how.

hostile("", syntax_error(_)).
hostile("   ", syntax_error(_)).
hostile("% nothing", syntax_error(_)).
hostile("foo(", syntax_error(_)).
hostile("foo. bar.", syntax_error(_)).
hostile("foo bar", syntax_error(_)).
hostile("a ===> b", syntax_error(_)).
hostile("'unclosed", syntax_error(_)).
hostile("<stream>(0x1)", syntax_error(_)).
hostile("{|string(x)||abc|}", syntax_error(_)).
hostile("{|-[|}", syntax_error(_)).
hostile("a{x:1, x:2}", syntax_error(_)).
hostile("1e99999999999", syntax_error(_)).
hostile("1r0", syntax_error(_)).
hostile("'\\x110000\\'", syntax_error(_)).
hostile("foo. :- halt.", syntax_error(_)).

nested(Open, Count, Text) :-
    length(List, Count),
    maplist(=(Open), List),
    atomics_to_string(List, Text).

test(text) :-
    with_pair(refuse_text).

refuse_text(Zero, One) :-
    forall(hostile(Text, Formal0),
           ( suci_send(One, 0, Text, [as(string)]),
             catch(( soon(Zero, _, Term), Error = read(Term) ), Error, true),
             assertion(Error = error(Formal0, suci_message(1, Text))) )),
    suci_send(One, 0, alive),
    soon(Zero, 1, alive).

test(deep_nesting, forall(member(Open, ["f(", "[", "(", "{", "[a|", "- ", "a:", "a{x:"]))) :-
    nested(Open, 1000000, Text),
    with_pair({Text}/[Zero,One]>>
              ( suci_send(One, 0, Text, [as(string)]),
                caught(soon(Zero, _, _), Formal),
                assertion(( Formal = syntax_error(_) ; Formal = resource_error(_) ;
                            Formal == none )),
                suci_send(One, 0, alive),
                soon(Zero, 1, alive) )).

%   Bytes that are not UTF-8: Prolog's own decoder would read beyond the end.
not_utf8([0xff]).
not_utf8([0xc3]).
not_utf8([0x61, 0xe2, 0x82]).
not_utf8([0xf0, 0x9f, 0x98]).
not_utf8([0xc0, 0x80]).
not_utf8([0xed, 0xa0, 0x80]).
not_utf8([0xf4, 0x90, 0x80, 0x80]).
not_utf8([0x80]).

test(bytes, forall(member(As, [term, string]))) :-
    with_pair(refuse_bytes(As)).

refuse_bytes(As, Zero, One) :-
    forall(not_utf8(Codes),
           ( suci_send(One, 0, Codes, [as(bytes)]),
             catch(soon(Zero, _, _, [as(As)]), Error, true),
             string_codes(Bytes, Codes),
             assertion(Error == error(syntax_error(illegal_utf8), suci_message(1, Bytes))) )).

test(fast_term_is_refused, true(Formal == permission_error(read, fast_term, 1))) :-
    with_pair({Formal}/[Zero,One]>>( suci_send(One, 0, f(x), [as(fast)]),
                                     caught(soon(Zero, _, _), Formal),
                                     suci_send(One, 0, alive),
                                     soon(Zero, 1, alive) )).

test(fast_term_of_another_version) :-
    with_pair({}/[Zero,One]>>
              ( suci_send(One, 0, [0'S, 0'W, 0'I, 0'r, 0'e, 0'c, 99, 8, 1, 2, 3], [as(bytes)]),
                caught(soon(Zero, _, _), Formal),
                assertion(Formal == syntax_error(fast_term_of_another_version)),
                suci_send(One, 0, "SWIrec", [as(bytes)]),
                caught(soon(Zero, _, _), Formal2),
                assertion(Formal2 == syntax_error(fast_term_of_another_version)) ),
              [trust(true)]).

test(flags_of_the_program, [ setup(set_prolog_flag(user:double_quotes, atom)),
                             cleanup(set_prolog_flag(user:double_quotes, string)),
                             true(Term == "text") ]) :-
    with_pair({Term}/[Zero,One]>>( suci_send(One, 0, "\"text\"", [as(string)]),
                                   soon(Zero, 1, Term) )).

:- end_tests(strangers).

:- begin_tests(messages).

test(order, true(Received == Sent)) :-
    numlist(1, 500, Sent),
    with_pair({Sent,Received}/[Zero,One]>>
              ( forall(member(I, Sent), suci_send(One, 0, I)),
                findall(I, ( member(_, Sent), soon(Zero, 1, I) ), Received) )).

test(time_limit, true(Waited < 5)) :-
    with_pair({Waited}/[Zero,_]>>
              ( get_time(Begun),
                \+ suci_recv(Zero, _, _, [timeout(0.1)]),
                \+ suci_next(Zero, _, [timeout(0)]),
                get_time(Ended),
                Waited is Ended - Begun,
                assertion(Waited >= 0.1) )).

test(wrong_limit, forall(member(Limit-Formal,
                                [ soon-type_error(seconds, soon),
                                  -1-domain_error(seconds, -1) ]))) :-
    with_pair({Limit,Formal}/[Zero,_]>>
              ( caught(suci_recv(Zero, _, _, [timeout(Limit)]), Caught),
                assertion(Caught == Formal) )).

test(properties) :-
    with_pair(properties).

properties(Zero, One) :-
    Tag is 2**64 - 1,
    suci_send(One, 0, x, [channel(5), tag(Tag), kind(200), user_header("h\u00ff")]),
    soon(Zero, From, Term, [ channel(Channel), tag(Received), kind(Kind), user_header(Header),
                             number(Number), request(Request), session(Session) ]),
    assertion([From,Term,Channel,Received,Kind,Header,Number,Request]
              == [1,x,5,Tag,200,"h\u00ff",0,none]),
    assertion(integer(Session)),
    caught(soon(Zero, _, _, [colour(red)]), Formal),
    assertion(Formal == domain_error(suci_receive_option, colour(red))).

test(wrong_send_options,
     forall(member(Option-Formal,
                   [ colour(red)-domain_error(suci_send_option, colour(red)),
                     kind(300)-domain_error(byte, 300),
                     channel(x)-type_error(integer, x),
                     kind(5)-suci_error(reserved_kind, _),
                     channel(0x1000000)-suci_error(reserved_channel, _) ]))) :-
    with_pair({Option,Formal}/[_,One]>>
              ( caught(suci_send(One, 0, a, [Option]), Caught),
                assertion(Caught = Formal) )).

test(choose_by_channel_and_peer) :-
    with_pair(choose).

choose(Zero, One) :-
    suci_send(One, 0, a, [channel(1)]),
    suci_send(One, 0, b, [channel(2)]),
    suci_send(Zero, 0, c),
    soon(Zero, 0, c),
    soon(Zero, _, b, [channel(2)]),
    soon(Zero, 1, a).

test(full_queue, true(Formal == resource_error(suci_send_queue))) :-
    suci_open(Node, [id(1), send_queue(65536)]),
    suci_add_peer(Node, 0, '127.0.0.1:9'),
    length(List, 40000),
    maplist(=(0'x), List),
    suci_send(Node, 0, List, [as(bytes)]),
    caught(suci_send(Node, 0, List, [as(bytes), timeout(0.1)]), Formal),
    catch(suci_close(Node, [patience(0)]), _, true).

test(events) :-
    with_pair(events).

events(Zero, One) :-
    suci_send(One, 0, hello, [notify(true), cookie(77)]),
    await_event(One, 0, delivered(0, _, 77)),
    suci_next(Zero, Up, [timeout(10)]),
    assertion(Up = event(1, up(_))),
    suci_next(Zero, Item, [timeout(10), channel(Channel)]),
    assertion(Item-Channel == message(1, hello)-0),
    suci_close(One),
    suci_next(Zero, End, [timeout(10)]),
    assertion(End = event(1, ended(closed, _, []))).

test(announced_message) :-
    with_pair(announced, [max_message(1024), rts_threshold(1024)]).

announced(Zero, One) :-
    length(List, 2000),
    maplist(=(0'x), List),
    suci_send(One, 0, List, [as(bytes), tag(9)]),
    await_event(Zero, 1, incoming(0, Number, 2000, 9, 128, "")),
    suci_refuse(Zero, 1, 0, Number, 42),
    caught(suci_accept(Zero, 1, 0, Number), Formal),
    assertion(Formal = suci_error(not_waiting, _)),
    suci_send(One, 0, short),
    soon(Zero, 1, short).

test(broadcast) :-
    with_pair(broadcast).

broadcast(Zero, One) :-
    suci_broadcast(One, [0,1], news, []),
    soon(Zero, 1, news),
    soon(One, 1, news),
    suci_broadcast(One, [0,8,9], news, [failed(Failed)]),
    assertion(Failed == [8-unknown_peer, 9-unknown_peer]),
    soon(Zero, 1, news),
    caught(suci_broadcast(One, [8], news, []), Formal),
    assertion(Formal == suci_error(not_all, [8-unknown_peer])).

test(flush) :-
    with_pair([Zero,One]>>( suci_send(One, 0, x), suci_flush(One, 10),
                            suci_queue(One, 0, 0, 0), soon(Zero, 1, x) )).

:- end_tests(messages).

:- begin_tests(requests).

test(call, forall(member(Threads, [0, 1]))) :-
    with_pair(call_and_reply, [threads(Threads)]).

call_and_reply(Zero, One) :-
    on_thread(serve(Zero, 3), Id),
    suci_call(One, 0, double(21), Reply, [timeout(10)]),
    assertion(Reply == 42),
    suci_call(One, 0, double(x), Reply2, [timeout(10)]),
    assertion(Reply2 = error(type_error(_, _))),
    suci_call(One, 0, 'double(4)', Reply3, [as(string), timeout(10)]),
    assertion(Reply3 == "8"),
    join(Id).

serve(_, 0) :-
    !.
serve(Node, Count) :-
    suci_next(Node, Item, [timeout(10)]),
    (   Item = request(1, double(X), Request)
    ->  catch(( Y is X * 2, Reply = Y ), error(Formal, _), Reply = error(Formal)),
        suci_reply(Node, Request, Reply),
        Left is Count - 1
    ;   Left = Count
    ),
    serve(Node, Left).

test(fast_call, true(Reply == f(x))) :-
    with_pair({Reply}/[Zero,One]>>
              ( on_thread(( soon(Zero, 1, Question, [request(Request)]),
                            suci_reply(Zero, Request, Question, [as(fast)]) ), Id),
                suci_call(One, 0, f(x), Reply, [as(fast), timeout(10)]),
                join(Id) ),
              [trust(true)]).

test(no_reply, error(timeout_error(suci, 0))) :-
    with_pair([_,One]>>suci_call(One, 0, anybody, _, [timeout(0.2)])).

test(peer_ends, true(Formal = suci_error(ended, _))) :-
    with_pair({Formal}/[Zero,One]>>
              ( on_thread(( soon(Zero, 1, question), suci_close(Zero) ), Id),
                caught(suci_call(One, 0, question, _, [timeout(10)]), Formal),
                join(Id) )).

test(no_request, error(type_error(suci_request, none))) :-
    with_pair([_,One]>>suci_reply(One, none, x)).

:- end_tests(requests).
