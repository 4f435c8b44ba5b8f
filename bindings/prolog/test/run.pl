/*  Runs all tests of library(suci): `make check`.

    SPDX-License-Identifier: MIT OR Apache-2.0
*/

:- use_module(library(plunit)).
:- use_module(test_nodes).
:- use_module(test_messages).
:- use_module(test_datagram).
