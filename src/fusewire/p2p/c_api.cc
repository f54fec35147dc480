// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/c_api.h"

#include <memory>
#include <string>
#include <utility>

#include "fusewire/base/log.h"
#include "fusewire/p2p/c_handles.h"
#include "fusewire/p2p/p2p.h"
#include "fusewire/reactor/cancel.h"
#include "fusewire/transport/listening.h"
#include "fusewire/transport/protection.h"
#include "fusewire/transport/socket_address.h"
#include "fusewire/transport/transports.h"

using fusewire::Buffer;
using fusewire::Bytes;
using fusewire::ConstBytes;
using fusewire::Status;
namespace p2p = fusewire::p2p;

struct fusewire_region {
  std::unique_ptr<p2p::Region> region;
};
struct fusewire_signal {
  std::unique_ptr<p2p::Signal> signal;
};
struct fusewire_op {
  std::unique_ptr<p2p::Op> op;
  p2p::ReceiveOp* receive = nullptr;  // the same, if it is one
  bool posted = false;
};

namespace {

// How to give back memory that C lent us.
struct Lent {
  void (*release)(void* owner);
  void* owner;
};

std::string& LastError() {
  thread_local std::string words;
  return words;
}

using p2p::KeepError;

p2p::Peer* PeerOf(fusewire_peer* peer) { return reinterpret_cast<p2p::Peer*>(peer); }
fusewire_peer* HandleOf(p2p::Peer* peer) { return reinterpret_cast<fusewire_peer*>(peer); }

fusewire_op* HandleOf(std::unique_ptr<p2p::Op> op) {
  auto handle = std::make_unique<fusewire_op>();
  handle->op = std::move(op);
  return handle.release();  // C's, until fusewire_op_free
}

Status NoWire(const char* wire) {
  return Status::Invalid("no wire is named \"" + std::string(wire) + "\"").Next("use auto, tcp, shm or ucx");
}

fusewire::transport::TlsOptions TlsOf(const char* certificate, const char* key, const char* authorities,
                                      const char* name) {
  fusewire::transport::TlsOptions tls;
  if (certificate != nullptr) tls.certificate = certificate;
  if (key != nullptr) tls.key = key;
  if (authorities != nullptr) tls.authorities = authorities;
  if (name != nullptr) tls.name = name;
  return tls;
}

}  // namespace

int p2p::KeepError(const Status& status) {
  LastError() = status.ToString();
  return static_cast<int>(status.code());
}

const char* fusewire_error(void) { return LastError().c_str(); }

int fusewire_wire_try(const char* wire, char* description, size_t description_bytes) {
  fusewire::task::TransportChoice named;
  if (!fusewire::task::TransportChoiceOf(wire, &named)) return KeepError(NoWire(wire));
  const fusewire::task::TransportTrial trial = fusewire::task::TryTransport(named);
  if (description_bytes > 0) description[trial.says.copy(description, description_bytes - 1)] = 0;
  return trial.status.ok() ? 0 : KeepError(trial.status);
}

int fusewire_tls_try(const char* certificate, const char* key, const char* authorities, char* description,
                     size_t description_bytes) {
  auto tried = fusewire::transport::TryTls(TlsOf(certificate, key, authorities, nullptr));
  if (!tried.ok()) return KeepError(tried.status());
  if (description_bytes > 0) description[tried.value().copy(description, description_bytes - 1)] = 0;
  return 0;
}

int fusewire_listening_address(const char* said, char* address, size_t address_bytes) {
  auto where = fusewire::transport::ListenAsSaid(said);
  if (!where.ok()) return KeepError(where.status());
  if (address_bytes > 0) address[where.value().copy(address, address_bytes - 1)] = 0;
  return 0;
}

int fusewire_endpoint_start(const fusewire_endpoint_options* said, fusewire_endpoint** out) {
  p2p::EndpointOptions options;
  options.pipe.name = said->name;
  options.protection.tls = TlsOf(said->certificate, said->key, said->authorities, said->peer_name);
  options.protection.checksums = said->checksums != 0;
  if (said->cluster != nullptr) options.pipe.cluster = said->cluster;
  if (said->secret != nullptr) options.pipe.secret = said->secret;
  if (said->wire != nullptr && !fusewire::task::TransportChoiceOf(said->wire, &options.wire)) {
    return KeepError(NoWire(said->wire));
  }
  auto where = fusewire::transport::Address::Parse(said->address);
  if (!where.ok()) return KeepError(where.status());
  // A name listens at the address that it has here, and an interface at its own; numbers are taken as they are.
  fusewire::transport::Address listen = where.value(), published = where.value();
  fusewire::transport::SocketAddress number;
  if (fusewire::transport::IsInterface(listen.host)) {
    auto own = fusewire::transport::ListenAsSaid(listen.host);
    if (!own.ok()) return KeepError(own.status());
    published.host = listen.host = own.value();
  } else if (!fusewire::transport::ParseNumeric(listen.host, 0, &number)) {
    fusewire::transport::ListeningPlace place = fusewire::transport::WhereToListen(listen.host);
    listen.host = place.host;
    if (!place.why.empty()) {
      FUSEWIRE_LOG(kWarn,
                   "endpoint %s listens on every interface: %s; see: fusewire explain network#where-the-data-goes",
                   said->name, place.why.c_str());
    }
  }
  auto started = p2p::Endpoint::Start(std::move(options), listen);
  if (!started.ok()) return KeepError(started.status());
  auto handle = std::make_unique<fusewire_endpoint>();
  handle->endpoint = std::move(started).value();
  handle->address = fusewire::transport::Address{published.host, handle->endpoint->address().port}.ToString();
  *out = handle.release();  // C's, until fusewire_endpoint_free
  return 0;
}

void fusewire_endpoint_close(fusewire_endpoint* endpoint) { endpoint->endpoint->Close(); }

void fusewire_endpoint_free(fusewire_endpoint* endpoint) { std::unique_ptr<fusewire_endpoint> last(endpoint); }

const char* fusewire_endpoint_address(fusewire_endpoint* endpoint) { return endpoint->address.c_str(); }

int fusewire_connect(fusewire_endpoint* endpoint, const char* name, const char* address, fusewire_peer** out) {
  fusewire::Result<p2p::Peer*> peer = nullptr;
  if (address == nullptr) {
    peer = endpoint->endpoint->Expect(name);
  } else {
    auto where = fusewire::transport::Address::Parse(address);
    if (!where.ok()) return KeepError(where.status());
    peer = endpoint->endpoint->Connect(name, where.value());
  }
  if (!peer.ok()) return KeepError(peer.status());
  *out = HandleOf(peer.value());
  return 0;
}

int fusewire_peer_up(fusewire_peer* peer) { return PeerOf(peer)->up() ? 1 : 0; }
uint64_t fusewire_peer_incarnation(fusewire_peer* peer) { return PeerOf(peer)->incarnation(); }
const char* fusewire_peer_name(fusewire_peer* peer) { return PeerOf(peer)->name().c_str(); }

int fusewire_region_open(fusewire_endpoint* endpoint, void* data, size_t bytes, int access,
                         void (*release)(void* owner), void* owner, fusewire_region** out, uint64_t* id) {
  if (access < 1 || access > 3)
    return KeepError(Status::Invalid("access: " + std::to_string(access) + ", it must be from 1 to 3")
                         .Next("use 1 to read, 2 to write, 3 for both"));
  Buffer memory = Buffer::Wrap(Bytes(data, bytes), nullptr, nullptr);
  if (release != nullptr) {
    auto lent = std::make_unique<Lent>(Lent{release, owner});
    memory = Buffer::Wrap(Bytes(data, bytes), lent.release(), [](void* held, Bytes) {
      std::unique_ptr<Lent> back(static_cast<Lent*>(held));
      back->release(back->owner);
    });
  }
  auto region = p2p::Region::Open(*endpoint->endpoint, std::move(memory), static_cast<p2p::Access>(access));
  if (!region.ok()) return KeepError(region.status());
  auto handle = std::make_unique<fusewire_region>();
  handle->region = std::move(region).value();
  *id = handle->region->ref().id;
  *out = handle.release();  // C's, until fusewire_region_close
  return 0;
}

void fusewire_region_close(fusewire_region* region) { std::unique_ptr<fusewire_region> last(region); }

int fusewire_signal_open(fusewire_endpoint* endpoint, fusewire_signal** out, uint64_t* id) {
  auto signal = p2p::Signal::Open(*endpoint->endpoint);
  if (!signal.ok()) return KeepError(signal.status());
  auto handle = std::make_unique<fusewire_signal>();
  handle->signal = std::move(signal).value();
  *id = handle->signal->ref();
  *out = handle.release();  // C's, until fusewire_signal_close
  return 0;
}

uint64_t fusewire_signal_value(fusewire_signal* signal) { return signal->signal->value(); }
void fusewire_signal_add(fusewire_signal* signal, uint64_t amount) { signal->signal->Add(amount); }
void fusewire_signal_close(fusewire_signal* signal) { std::unique_ptr<fusewire_signal> last(signal); }

fusewire_op* fusewire_send_op(fusewire_endpoint* endpoint, fusewire_peer* peer, uint64_t tag, const void* data,
                              size_t bytes, int confirm) {
  auto op = std::make_unique<p2p::SendOp>(*endpoint->endpoint, *PeerOf(peer), tag, ConstBytes(data, bytes));
  op->confirm = confirm != 0;
  return HandleOf(std::move(op));
}

fusewire_op* fusewire_receive_op(fusewire_endpoint* endpoint, fusewire_peer* peer, uint64_t tag, void* data,
                                 size_t bytes) {
  auto op = std::make_unique<p2p::ReceiveOp>(*endpoint->endpoint, PeerOf(peer), tag, Bytes(data, bytes));
  p2p::ReceiveOp* receive = op.get();
  fusewire_op* handle = HandleOf(std::move(op));
  handle->receive = receive;
  return handle;
}

fusewire_op* fusewire_put_op(fusewire_endpoint* endpoint, fusewire_peer* peer, uint64_t region, uint64_t region_bytes,
                             uint64_t offset, const void* data, size_t bytes, uint64_t signal, uint64_t add,
                             int confirm) {
  auto op = std::make_unique<p2p::PutOp>(*endpoint->endpoint, *PeerOf(peer), p2p::RegionRef{region, region_bytes},
                                         offset, ConstBytes(data, bytes));
  op->signal = signal;
  op->add = add;
  op->confirm = confirm != 0;
  return HandleOf(std::move(op));
}

fusewire_op* fusewire_get_op(fusewire_endpoint* endpoint, fusewire_peer* peer, uint64_t region, uint64_t region_bytes,
                             uint64_t offset, void* data, size_t bytes) {
  return HandleOf(std::make_unique<p2p::GetOp>(*endpoint->endpoint, *PeerOf(peer), p2p::RegionRef{region, region_bytes},
                                               offset, Bytes(data, bytes)));
}

fusewire_op* fusewire_await_op(fusewire_endpoint* endpoint, fusewire_signal* signal, uint64_t at_least) {
  return HandleOf(std::make_unique<p2p::AwaitOp>(*endpoint->endpoint, *signal->signal, at_least));
}

fusewire_op* fusewire_await_peer_op(fusewire_endpoint* endpoint, fusewire_peer* peer) {
  return HandleOf(std::make_unique<p2p::AwaitPeerOp>(*endpoint->endpoint, *PeerOf(peer)));
}

void fusewire_op_post(fusewire_op* op, int64_t timeout_ns) {
  op->op->timeout_ns = timeout_ns;
  op->posted = true;
  op->op->Post();
}

int fusewire_op_wait(fusewire_op* op, int64_t limit_ns) {
  if (limit_ns == 0) return op->op->Test() ? 1 : 0;
  const bool asks = limit_ns < 0;
  const auto interrupts = asks ? fusewire::reactor::Interrupts::kEndWait : fusewire::reactor::Interrupts::kGoOn;
  return op->op->Wait(asks ? fusewire::reactor::kAskNs : limit_ns, interrupts) ? 1 : 0;
}

int fusewire_op_result(fusewire_op* op) {
  const Status& status = op->op->status();
  return status.ok() ? 0 : KeepError(status);
}

void fusewire_op_cancel(fusewire_op* op) { op->op->Cancel(); }
uint64_t fusewire_op_received(fusewire_op* op) { return op->receive == nullptr ? 0 : op->receive->bytes; }

fusewire_peer* fusewire_op_source(fusewire_op* op) {
  return op->receive == nullptr ? nullptr : HandleOf(op->receive->source);
}

void fusewire_op_free(fusewire_op* op) {
  std::unique_ptr<fusewire_op> last(op);
  if (!op->posted || op->op->Test()) return;
  op->op->Cancel();
  op->op->Wait();
}
