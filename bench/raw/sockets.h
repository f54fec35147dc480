// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The simplest use of TCP that a careful programmer would write: the baseline of the other variants.
// Every function ends the process when a socket fails; only ReadAll and ReadAllBusy report the end of the
// stream.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fusewire::bench {

int ListenOnLoopback(uint16_t port, uint16_t* bound_port);
int AcceptOne(int listener);
int ConnectToLoopback(uint16_t port);

void WriteAll(int fd, const void* data, size_t size);
bool ReadAll(int fd, void* data, size_t size);  // false: the peer has closed

// The same without sleeping in the kernel: polls until the bytes have arrived.
void WriteAllBusy(int fd, const void* data, size_t size);
bool ReadAllBusy(int fd, void* data, size_t size);

void WriteGather(int fd, std::vector<iovec> parts);
bool ReadScatter(int fd, std::vector<iovec> parts);

}  // namespace fusewire::bench
