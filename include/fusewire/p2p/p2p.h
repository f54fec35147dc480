// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Endpoints, which send messages to each other and access each other's memory: one header for the whole API. See
// docs/p2p.md.
#pragma once

#include "fusewire/p2p/endpoint.h"
#include "fusewire/p2p/op.h"
#include "fusewire/p2p/peer.h"
#include "fusewire/p2p/region.h"
