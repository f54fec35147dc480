// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The transports that connections run over, each made by a function, and what this machine has for them.
// Home: as in transport.h; one transport may serve many reactors. The other functions: any thread.
// Owns: a transport the ones that it was made of; TCP and shared memory a thread for names, from the first name on.
// Fails: as in transport.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/transport/protection.h"
#include "fusewire/transport/tcp/tcp_options.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

// TCP over IPv4 and IPv6, on epoll.
std::unique_ptr<Transport> MakeTcp(TcpOptions options);

// ---- shared memory ----
// Memory shared by two processes of one container and one user: a ring of bytes in each direction, and for what is
// large a copy straight from the sender's memory into the receiver's. See shm/README.md. `lend`: whether pieces are
// copied that way, where the system allows it (process_vm_readv). Dial says kUnavailable where the host is another
// machine, or no task of it listens there.
std::unique_ptr<Transport> MakeShm(bool lend = true);
// Which host a process is on, as a number that processes may send each other: it is the same for those that can meet to
// share memory, whatever their addresses. A hint: the proof is that they meet, see control_message.h and gathering.h.
// Made of its kernel's boot id and its network namespace. 0 where the system does not tell.
uint64_t HostId();
// Whether pieces may be taken from another process's memory: a child that is forked for it tries.
bool MayLend();
// What all connections of this process have written so far.
uint64_t SharedBytesWritten();

// ---- UCX ----
struct UcxOptions {
  // Whether UCX is used wherever it works, or only between two tasks that both have an RDMA device that is up: where
  // there is none when the transport is made, the lower one is all there is.
  bool always = true;
  // A name for the loader, or a path.
  std::string library = "libucp.so.0";
};

// RDMA through UCX, on top of another transport: two ends meet over the lower one, and where both can, their stream
// moves to UCX; where one of them cannot, it stays where it began. See ucx/README.md. libucp is loaded when it is first
// needed and never required. Each reactor has a UCX worker of its own, for as long as it lives. Fails as the lower one
// does; a connection whose UCX fails, fails. A dialler sends first: what a listener writes waits until it knows what
// kind of peer it has.
std::unique_ptr<Transport> MakeUcx(std::unique_ptr<Transport> lower, UcxOptions options);
// For `fusewire doctor`. Loads the library.
struct UcxDescription {
  bool loaded = false;
  std::string version;       // "1.13.1"
  std::string why_not;       // when it is not loaded: why, and what to do
  std::string rdma_devices;  // "mlx5_0:1 rxe0:1": those that are up
};
UcxDescription DescribeUcx(const UcxOptions& options);

// ---- over another one ----
// TLS 1.3: both ends show a certificate of an authority that the other one trusts. Fails if a file or OpenSSL cannot be
// used; a connection as in tls/context.h.
Result<std::unique_ptr<Transport>> MakeTls(std::unique_ptr<Transport> beneath, TlsOptions options);
// A few words on OpenSSL and on this task's certificate, or why they cannot be used. Without files: on OpenSSL alone.
Result<std::string> TryTls(const TlsOptions& options);
// Checksums: a byte that changes on its way ends its connection with kCorrupt, and is never delivered.
std::unique_ptr<Transport> MakeChecksum(std::unique_ptr<Transport> beneath);
// Combines two: a connection uses the near one if its peer can be reached there, and the far one otherwise. Listens on
// both under one address; dials near first, which must fail soon, with kUnavailable, if the peer is not near. A peer
// that is near but can't be reached there is dialled far, with one log line that says why. Fails as the far one does.
std::unique_ptr<Transport> MakeNearest(std::unique_ptr<Transport> near, std::unique_ptr<Transport> far);

}  // namespace fusewire::transport
