// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Transport carries a stream of bytes between two homes. TCP and the in-process loopback are behind this door;
// shared memory and RDMA fit the same shape: bytes land where the handler says, and memory that was handed
// over for sending is given back once the network is done with it.
// Home: a Connection lives, works and dies on the reactor that it was made for; a Listener likewise.
// Owns: its descriptors. Never the memory that it reads into or writes from.
// Fails: a Connection once, through OnClosed, with the errno and what was being done. A pipe, which
// knows the peer's name, adds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/address.h"

namespace fusewire::transport {

// How many pieces a Connection asks for at a time at the most.
constexpr size_t kLandingPartsMax = 32;

// A connection gives way to the others of its reactor after it has read this much.
constexpr size_t kReadBytesPerTurn = 1 << 20;
// Large enough for a hundred small messages; under kCopyBytesMax, so that no large piece of payload is ever copied out.
constexpr size_t kLookAheadMax = kCopyBytesMax - 1;
// Where connections look at bytes: never in memory that the peer could change meanwhile. The bytes are gone when the
// callback returns, so one buffer a thread serves all connections.
inline thread_local uint8_t look_ahead[kLookAheadMax];

// The questions and events of a Connection. All calls at home. No call may destroy the Connection, except OnClosed.
class ConnectionHandler {
 public:
  // Before each read: where the next bytes of the stream shall land, in up to parts_max pieces; returns how many it
  // set. None: the handler wants to see the bytes first. The memory must stay valid until the next call of Landing(),
  // TakeBackLanding(), OnClosed or the Connection's destruction.
  virtual size_t Landing(Bytes* parts, size_t parts_max) = 0;
  // The first `bytes` bytes of what Landing() named are filled.
  virtual void OnLanded(size_t bytes) = 0;
  // Before each read: how many bytes behind the landing may be read ahead into the transport's own memory.
  virtual size_t LookAhead() = 0;
  // A lower bound on the bytes that the peer still sends for this body. Input may wait until a good
  // part of it is there.
  virtual uint64_t Expected() { return 0; }
  // Bytes that followed the landing, in the transport's memory: valid during the call, which must take them all.
  virtual void OnBytes(ConstBytes bytes) = 0;
  // Answers one Write, once: the network is done with the first `bytes` bytes of it, and will not touch the rest. There
  // may be less than was offered, even nothing: then offer the rest again now, and the answer comes when there is room.
  // Comes before whatever the peer wrote after it had read these bytes.
  virtual void OnWritten(size_t bytes) = 0;
  // Once for each time that Delivered() was false: now it would be true.
  virtual void OnDelivered() {}
  // The last call, exactly once.
  virtual void OnClosed(Status why) = 0;

 protected:
  ~ConnectionHandler() = default;
};

class Connection;

// An accepted connection that has no home yet. Dropping it rejects the dialler.
class Incoming {
 public:
  virtual ~Incoming() = default;
  // At home of `home`, once.
  virtual Result<std::unique_ptr<Connection>> Adopt(reactor::Reactor& home) = 0;
  virtual const std::string& peer_address() const = 0;
};

class Connection {
 public:
  virtual ~Connection() = default;  // at home; silent: no OnClosed
  // At home, once: from now on the handler is called, never from inside Start.
  virtual void Start(ConnectionHandler* handler) = 0;
  // At home. Gathers the parts into one send. They stay valid until OnWritten, which may come before Write returns. One
  // at a time, unless it TakesMore().
  virtual void Write(const ConstBytes* parts, size_t count) = 0;
  // At home, while Writes are unanswered: whether all of them is taken, but for the memory, and another one is welcome
  // meanwhile. They are answered in order.
  virtual bool TakesMore() const { return false; }
  // At home. How many bytes of long messages are worth having under way: urgent messages wait behind them.
  virtual size_t BulkBytes() const { return 64 * 1024; }
  // At home. Whether all that was written has arrived at the peer's host; if not, OnDelivered says when. If it is
  // closed before that, the delivery depends on the peer: data that the peer sends to a closed connection ends it.
  virtual bool Delivered() { return true; }
  // At home. Bytes that were written are still delivered if the network can; nothing is read any more. OnClosed(why)
  // follows later, not from inside Close. Closing again changes nothing.
  virtual void Close(Status why) = 0;
  // At home, not from inside a call to the handler. Reads what has come, even if that is less than is worth a wake-up.
  virtual void Look() {}
  // At home. When it returns, nothing touches the memory that Landing() named last: for a handler that needs it back
  // before the next call. OnLanded still reports the bytes that have come there by then, now or later.
  virtual void TakeBackLanding() {}
  // At home, inside OnBytes, of one that was adopted and that nothing was written to yet: leaves its home, for
  // another. Unread bytes move with it, and the dialler does not notice. The handler gets no more calls.
  // Null: it cannot, and nothing has changed.
  virtual std::unique_ptr<Incoming> HandOver() { return nullptr; }
  // At home, once something has come: bytes that the two ends of this connection share, and nobody else knows, not even
  // a machine in the middle; they go into the proofs of the greeting; may be empty.
  virtual std::string Binding() { return std::string(); }
  // "10.0.0.7:5555", for words and logs.
  virtual const std::string& peer_address() const = 0;
  // The transport: "tcp", "shm", "loopback".
  virtual const char* wire() const = 0;
};

// At home of the listener.
using OnIncoming = UniqueFunction<void(std::unique_ptr<Incoming>)>;

class Listener {
 public:
  virtual ~Listener() = default;        // at home; stops listening
  virtual Address address() const = 0;  // with the port that was really taken
};

// An attempt to connect. Destroying it (at home) gives up: the callback is then never called.
class Dialing {
 public:
  virtual ~Dialing() = default;
};

// At home, once, never from inside Dial.
using OnDialed = UniqueFunction<void(Result<std::unique_ptr<Connection>>)>;

class Transport {
 public:
  virtual ~Transport() = default;
  // At home of `home`.
  virtual Result<std::unique_ptr<Listener>> Listen(reactor::Reactor& home, const Address& address,
                                                   OnIncoming on_incoming) = 0;
  // At home of `home`. Resolves names anew each time; tries every address of a name until the time is up.
  virtual std::unique_ptr<Dialing> Dial(reactor::Reactor& home, const Address& address, int64_t timeout_ns,
                                        OnDialed on_dialed) = 0;
  // Any thread. Whether each connection that comes in can be handed over, see Connection.
  virtual bool HandsOver() const { return false; }
  // Any thread. The approximate memory of an accepted connection that has sent no more than a greeting.
  virtual size_t GreetingBytes() const { return 16 * 1024; }
};

}  // namespace fusewire::transport
