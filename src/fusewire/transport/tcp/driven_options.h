// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options of TCP, with what drives its connections.
// Home: any, plain values. Owns: nothing. Fails: never.
#ifndef FUSEWIRE_TRANSPORT_TCP_DRIVEN_OPTIONS_H_
#define FUSEWIRE_TRANSPORT_TCP_DRIVEN_OPTIONS_H_

#include "fusewire/transport/drive.h"
#include "fusewire/transport/tcp/tcp_options.h"

namespace fusewire {
namespace transport {

struct DrivenOptions : TcpOptions {
  // Drives established connections. If it is null, or does not work: epoll.
  DriveSocket drive = nullptr;
};

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_TCP_DRIVEN_OPTIONS_H_
