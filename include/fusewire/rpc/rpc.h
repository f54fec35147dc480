// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The door of the room: Servers and Clients on a Task, Calls between them. See examples/hello_rpc.cc.
#pragma once

#include "fusewire/rpc/call.h"
#include "fusewire/rpc/client.h"
#include "fusewire/rpc/server.h"
#include "fusewire/rpc/stats.h"
#include "fusewire/task/task.h"
