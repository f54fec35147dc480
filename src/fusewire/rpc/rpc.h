// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The door of the room: a Node, Servers and Clients on it, Calls between them. See examples/hello_rpc.cc.
#ifndef FUSEWIRE_RPC_RPC_H_
#define FUSEWIRE_RPC_RPC_H_

#include "fusewire/rpc/call.h"
#include "fusewire/rpc/client.h"
#include "fusewire/rpc/node.h"
#include "fusewire/rpc/server.h"
#include "fusewire/rpc/stats.h"

#endif  // FUSEWIRE_RPC_RPC_H_
