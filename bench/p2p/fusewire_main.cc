// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Ours: two endpoints, operations that are made once, posted again at home in each other's end.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include "bench/p2p/ends.h"
#include "fusewire/p2p/p2p.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/task/transport_choice.h"
#include "fusewire/transport/transport.h"

namespace fusewire::bench {
namespace {

constexpr uint64_t kTag = 1;

struct Named {
  const char* name;
  task::TransportChoice wire;
  const char* says;     // what a peer that is reached over it says
  const char* ucx_tls;  // what UCX goes over, as in ucx_main.cc
};
constexpr Named kWires[] = {
    {"tcp", task::TransportChoice::kTcp, "tcp", nullptr},
    {"shm", task::TransportChoice::kShm, "shm", nullptr},
    {"ucx", task::TransportChoice::kUcx, "ucx", "tcp"},
    {"ucxshm", task::TransportChoice::kUcx, "ucx", "posix,cma"},
};

const Named& WireOf(const std::string& name) {
  for (const Named& wire : kWires) {
    if (name == wire.name) return wire;
  }
  Die("no wire " + name);
}

// Prints the transports that this machine supports; on the other stream, the reasons against the others.
std::vector<std::string> Wires(bool asks) {
  std::vector<std::string> names;
  for (const Named& wire : kWires) {
    const Status status = asks ? task::TryTransport(wire.wire).status : Status::Ok();
    if (status.ok()) {
      names.emplace_back(wire.name);
    } else {
      std::fprintf(stderr, "%s: %s\n", wire.name, status.ToString().c_str());
    }
  }
  return names;
}

// A user's settings for UCX on a host without RDMA. Its shared memory is usable only if it notices a peer's end.
void SetUcx(const Named& wire) {
  if (wire.ucx_tls == nullptr) return;
  setenv("UCX_TLS", wire.ucx_tls, 1);
  setenv("UCX_LOG_FILE", "stderr", 0);  // the other stream is for the figures
  if (wire.ucx_tls == std::string("tcp")) {
    setenv("UCX_NET_DEVICES", "lo", 1);
  } else {
    setenv("UCX_MM_ERROR_HANDLING", "y", 1);
  }
}

// Keeps `count` posts of one kind of operation going, at home, as many at a time as there are operations.
template <typename Operation>
class Stream {
 public:
  template <typename Make>
  Stream(bool serves, size_t depth, const Make& make) : serves_(serves) {
    for (size_t i = 0; i < depth; ++i) {
      operations_.push_back(make());
      Operation* operation = operations_.back().get();
      operation->then = [this, operation] { OnEnd(operation); };
    }
  }
  void Run(reactor::Reactor* home, uint64_t count) {
    if (count == 0) return;
    reactor::Completion done;
    done_ = &done;
    left_ = ending_ = count;
    home->Run([this] {
      for (auto& operation : operations_) Next(operation.get());
    });
    (void)done.Wait(*home);
  }

 private:
  void Next(Operation* operation) {
    if (left_ == 0) return;
    --left_;
    operation->Post();
  }
  void OnEnd(Operation* operation) {
    if (!operation->status().ok()) {
      if (serves_) std::_Exit(0);  // the client has what it wants
      Die(operation->status().ToString());
    }
    Next(operation);
    if (--ending_ == 0) done_->Done();
  }
  const bool serves_;
  std::vector<std::unique_ptr<Operation>> operations_;
  uint64_t left_ = 0, ending_ = 0;
  reactor::Completion* done_ = nullptr;
};

class EndpointEnd final : public End {
 public:
  explicit EndpointEnd(const Way& way) : serves_(way.serves) {
    const Named& wire = WireOf(way.wire);
    SetUcx(wire);
    p2p::EndpointOptions options;
    options.pipe.name = serves_ ? "server" : "client";
    options.limits.timeout_ns = kForeverNs;
    reactor::PoolOptions pool;
    pool.reactors = 1;
    pool.busy_poll = way.busy;
    if (way.parked) pool.spin_ns_max = 0;
    auto reactors = reactor::Pool::Start(pool);
    if (!reactors.ok()) Die(reactors.status().ToString());
    auto made = p2p::Endpoint::Make(std::move(options), {"127.0.0.1", 0}, std::move(reactors).value(),
                                    task::MakeTransport(wire.wire, {}, {}).value());
    if (!made.ok()) Die(made.status().ToString());
    endpoint_ = std::move(made).value();
    const int port = std::atoi(Swap(way, std::to_string(endpoint_->address().port)).c_str());
    auto peer = way.serves ? endpoint_->Expect("client")
                           : endpoint_->Connect("server", {"127.0.0.1", static_cast<uint16_t>(port)});
    if (!peer.ok()) Die(peer.status().ToString());
    peer_ = peer.value();
    const Status up = endpoint_->AwaitUp(*peer_);
    if (!up.ok()) Die(up.ToString());
    if (peer_->wire() != std::string(wire.says)) Die("not over " + way.wire + ", but over " + peer_->wire());
  }

  void Send(const void* data, size_t size, uint64_t count) override {
    Stream<p2p::SendOp> stream(serves_, std::min<uint64_t>(count, DepthOf(size)), [&] {
      return std::make_unique<p2p::SendOp>(*endpoint_, *peer_, kTag, ConstBytes(data, size));
    });
    stream.Run(&endpoint_->home(), count);
  }
  void Receive(void* data, size_t size, uint64_t count) override {
    Stream<p2p::ReceiveOp> stream(serves_, std::min<uint64_t>(count, DepthOf(size)), [&] {
      return std::make_unique<p2p::ReceiveOp>(*endpoint_, peer_, kTag, Bytes(data, size));
    });
    stream.Run(&endpoint_->home(), count);
  }

  void Echo(size_t size) override {
    std::vector<char> message(size);
    p2p::ReceiveOp question(*endpoint_, peer_, kTag, Bytes(message.data(), size));
    p2p::SendOp answer(*endpoint_, *peer_, kTag, ConstBytes(message.data(), size));
    answer.then = [&] { question.Post(); };
    question.then = [&] {
      if (!question.status().ok()) std::_Exit(0);  // the client has what it wants
      answer.Post();
    };
    question.Post();
    while (true) pause();
  }

  void RoundTrips(size_t size, const Again& again) override {
    std::vector<char> message(size, 'x'), landing(size);
    p2p::SendOp question(*endpoint_, *peer_, kTag, ConstBytes(message.data(), size));
    p2p::ReceiveOp answer(*endpoint_, peer_, kTag, Bytes(landing.data(), size));
    reactor::Completion done;
    bool sent = false, answered = false;
    // A large message may be answered before its sender has heard that it was taken.
    const std::function<void()> next = [&] {
      if (!sent || !answered) return;
      sent = answered = false;
      if (!question.status().ok()) Die(question.status().ToString());
      if (!answer.status().ok()) Die(answer.status().ToString());
      if (!again()) {
        done.Done();
        return;
      }
      answer.Post();
      question.Post();
    };
    question.then = [&] {
      sent = true;
      next();
    };
    answer.then = [&] {
      answered = true;
      next();
    };
    endpoint_->home().Run([&] {
      answer.Post();
      question.Post();
    });
    (void)done.Wait(endpoint_->home());
  }

 private:
  const bool serves_;
  std::unique_ptr<p2p::Endpoint> endpoint_;
  p2p::Peer* peer_ = nullptr;
};

std::unique_ptr<End> MakeEndpointEnd(const Way& way) { return std::make_unique<EndpointEnd>(way); }

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  const bool asks = argc == 2 && argv[1] == std::string("wires");
  return fusewire::bench::MainOfEnds(argc, argv, "p2p", fusewire::bench::Wires(asks), fusewire::bench::MakeEndpointEnd);
}
