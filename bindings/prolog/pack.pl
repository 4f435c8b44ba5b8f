name(suci).
version('0.1.0').
title('Reliable messages between the processes of a cluster, over one UDP socket each').
author('The Suci developers', 'suci@localhost').
pack_version(2).
requires(prolog >= '9.0.0').
