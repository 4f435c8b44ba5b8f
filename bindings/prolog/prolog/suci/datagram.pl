/*  The classic predicates of library(suci).

    SPDX-License-Identifier: MIT OR Apache-2.0
*/

:- module(suci_datagram,
          [ addressdb_lex/2,            % +File, -AddressDB
            datagram/5,                 % +AddressDB, +Address, +Port, +ID, -Socket
            datagram_destination/2,     % +Socket, +ID
            datagram_write/2,           % +Socket, +Term
            datagram_write/3,           % +Socket, +ID, +Term
            datagram_read/2,            % +Socket, -Term
            datagram_read/3,            % +Socket, ?ID, -Term
            datagram_ready/3,           % +Socket, +Seconds, +Milliseconds
            datagram_queue_length/3,    % +Socket, +ID, -Length
            datagram_retransmission/2,  % +Socket, +ID
            datagram_getdestbuf/3,      % +Socket, +ID, -Size
            datagram_through/2,         % +Socket, +ID
            datagram_rapid/2,           % +Socket, +ID
            datagram_disconnect/2,      % +Socket, +ID
            datagram_reconnect/2,       % +Socket, +ID
            datagram_state/3,           % +Socket, +ID, -State
            datagram_close/1,           % +Socket
            datagram_new_packet/3,      % +Socket, +Term, -Packet
            datagram_packet_put/3,      % +Socket, +Packets, +ID
            datagram_packet_get/3,      % +Socket, ?ID, -Term
            ack_sync/2                  % +Socket, +ID
          ]).
:- use_module(library(apply), [exclude/3]).
:- use_module(library(error)).
:- use_module(library(lists)).
:- use_module('../suci', [suci_open/2, suci_close/1, suci_send/3, suci_recv/4]).
:- use_module(foreign).
:- use_module(terms).

/** <module> The classic Prolog interface of Suci

Names and modes are those of the published interface: one UDP socket reaches all others, the
program says what flows and when. Part of library(suci), which exports them. A socket is a node of
library(suci) with threads(0), so that all `suci_*` predicates work on it, too.
*/

%!  addressdb_lex(+File, -AddressDB) is det.
%
%   Reads an address table: one node per line, `id address:port`. AddressDB is a list of ID-Address.
%
%   @error suci_error(book, Message), where Message names file and line.

addressdb_lex(File, AddressDB) :-
    book_text(File, Text),
    split_string(Text, "\n", " \t\r", Lines),
    findall(Entry, ( member(Line, Lines), table_entry(Line, Entry) ), AddressDB).

table_entry(Line, ID-Address) :-
    split_string(Line, "#", "", [Content|_]),
    split_string(Content, " \t", " \t", Fields0),
    exclude(==(""), Fields0, [IDText,AddressText|_]),
    number_string(ID, IDText),
    atom_string(Address, AddressText).

%!  datagram(+AddressDB, +Address, +Port, +ID, -Socket) is det.
%
%   Opens the UDP socket of this process, which has the node ID `ID` and the local Address and Port.
%   AddressDB tells where the others are. The socket works only while it is called: see
%   datagram_ready/3. For other options, as allow_insecure_network(true), open it by suci_open/2
%   with threads(0).

datagram(AddressDB, Address, Port, ID, Socket) :-
    must_be(between(0, 65535), Port),
    (   sub_atom(Address, _, _, _, :),
        \+ sub_atom(Address, 0, _, _, '[')
    ->  format(atom(Listen), '[~w]:~d', [Address, Port])
    ;   format(atom(Listen), '~w:~d', [Address, Port])
    ),
    suci_open(Socket, [threads(0), id(ID), book(AddressDB), listen(Listen)]).

%!  datagram_close(+Socket) is det.
%
%   Closes the socket, as suci_close/1.

datagram_close(Socket) :-
    suci_close(Socket).

%!  datagram_destination(+Socket, +ID) is det.
%
%   Chooses the destination of datagram_write/2.

datagram_destination(Socket, ID) :-
    must_be(nonneg, ID),
    node_destination(Socket, ID).

%!  datagram_write(+Socket, +Term) is semidet.
%!  datagram_write(+Socket, +ID, +Term) is semidet.
%
%   Sends Term, in canonical form, to the destination of datagram_destination/2, or to the node
%   `ID`. Fails while either
%   side is disconnected by datagram_disconnect/2.
%
%   @error existence_error(suci_destination, Socket) if no destination was chosen.

datagram_write(Socket, Term) :-
    (   node_destination(Socket, ID)
    ->  datagram_write(Socket, ID, Term)
    ;   existence_error(suci_destination, Socket)
    ).

datagram_write(Socket, ID, Term) :-
    catch(suci_send(Socket, ID, Term), error(permission_error(send, suci_peer, _), _), fail).

%!  datagram_read(+Socket, -Term) is semidet.
%!  datagram_read(+Socket, ?ID, -Term) is semidet.
%
%   Takes a message that is there, and tells who sent it. Fails if there is none: datagram_ready/3
%   waits for one.

datagram_read(Socket, Term) :-
    datagram_read(Socket, _, Term).

datagram_read(Socket, ID, Term) :-
    suci_recv(Socket, ID, Term, [timeout(0)]).

%!  datagram_ready(+Socket, +Seconds, +Milliseconds) is semidet.
%
%   Does input and output, sends queued packets, and waits at most so long until a message can be
%   read. Fails if there is none. Takes events away: a program that wants them uses suci_next/3.

datagram_ready(Socket, Seconds, Milliseconds) :-
    Limit is Seconds + Milliseconds / 1000.0,
    packets_send(Socket),
    node_ready(Socket, Limit).

%!  datagram_queue_length(+Socket, +ID, -Length) is det.
%
%   How many messages to `ID` are not yet acknowledged.

datagram_queue_length(Socket, ID, Length) :-
    peer_queue(Socket, ID, Length, _).

%!  datagram_retransmission(+Socket, +ID) is det.
%
%   Sends everything again that `ID` has not acknowledged. By default the library knows itself when
%   to do that. After suci_set_peer(Socket, ID, [manual_retransmission(true)]) lost messages go
%   again by this call only.

datagram_retransmission(Socket, ID) :-
    peer_retransmit(Socket, ID).

%!  datagram_getdestbuf(+Socket, +ID, -Size) is det.
%
%   How many bytes `ID` would take now; 0 while it is not connected.

datagram_getdestbuf(Socket, ID, Size) :-
    peer_window(Socket, ID, 0, Size).

%!  datagram_through(+Socket, +ID) is det.
%!  datagram_rapid(+Socket, +ID) is det.
%
%   From now on messages to `ID` prefer throughput (the receiver grants its largest window, few
%   acknowledgements), or response (small window, early acknowledgements).

datagram_through(Socket, ID) :-
    peer_set(Socket, ID, [mode(throughput)]).

datagram_rapid(Socket, ID) :-
    peer_set(Socket, ID, [mode(response)]).

%!  datagram_disconnect(+Socket, +ID) is det.
%!  datagram_reconnect(+Socket, +ID) is det.
%
%   Disconnects from `ID` until datagram_reconnect/2. What was accepted and is not acknowledged is
%   kept and sent then. Meanwhile datagram_write/3 fails at both ends.

datagram_disconnect(Socket, ID) :-
    peer_suspend(Socket, ID).

datagram_reconnect(Socket, ID) :-
    peer_resume(Socket, ID).

%!  datagram_state(+Socket, +ID, -State) is det.
%
%   State is one of
%
%     - idle
%       Never needed yet, or over.
%     - connecting
%     - connected
%     - disconnected
%       By datagram_disconnect/2 here. Only datagram_reconnect/2 undoes it.
%     - disconnected_there
%       By the other side.
%     - silent
%       The library noticed that `ID` is silent. It recovers by itself when `ID` answers.

datagram_state(Socket, ID, State) :-
    peer_stats(Socket, ID, Stats),
    memberchk(link-Link, Stats),
    memberchk(suspended_here-Here, Stats),
    memberchk(suspended_there-There, Stats),
    (   Here == true
    ->  State = disconnected
    ;   There == true
    ->  State = disconnected_there
    ;   link_state(Link, State)
    ).

link_state(idle, idle).
link_state(connecting, connecting).
link_state(up, connected).
link_state(lost, silent).
link_state(quiet, silent).

%!  datagram_new_packet(+Socket, +Term, -Packet) is det.
%
%   Makes a packet of Term: its bytes, in memory that garbage collection frees. It can be sent any
%   number of times to any number of nodes.

datagram_new_packet(Socket, Term, Packet) :-
    must_be_node(Socket),
    payload(Term, [], Payload),
    packet_new(Payload, Packet).

must_be_node(Socket) :-
    (   node_is_open(Socket)
    ->  true
    ;   must_be(nonvar, Socket),
        existence_error(suci_node, Socket)
    ).

%!  datagram_packet_put(+Socket, +Packets, +ID) is det.
%
%   Queues a packet or a list of packets to `ID` without copying them, and without sending them:
%   datagram_ready/3 hands all queued packets over as one batch. Packets that cannot be sent yet,
%   because the send queue is full or the peer is disconnected, stay queued.

datagram_packet_put(Socket, Packets, ID) :-
    (   is_list(Packets)
    ->  forall(member(Packet, Packets), packet_put(Socket, Packet, ID))
    ;   packet_put(Socket, Packets, ID)
    ).

%!  datagram_packet_get(+Socket, ?ID, -Term) is semidet.
%
%   Takes one received message, as datagram_read/3. A packet and a message arrive alike.

datagram_packet_get(Socket, ID, Term) :-
    datagram_read(Socket, ID, Term).

%!  ack_sync(+Socket, +ID) is det.
%
%   Acknowledges what was received from `ID` (and from others) now, instead of together with the
%   next message or at the next call.

ack_sync(Socket, ID) :-
    must_be(nonneg, ID),
    node_turn(Socket).
