// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Pipes on TCP: what depends on the kernel's buffers and on real threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/pipe/pipe.h"
#include "fusewire/pipe/script_test.h"
#include "fusewire/pipe/world_test.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/transport/transports.h"

namespace fusewire::pipe {
namespace {

using testing::HasSubstr;
using wire::FrameKind;

// Waits until `done` returns true, without using up the processor; false after ten seconds.
bool WaitFor(const std::function<bool()>& done) {
  Clock* clock = Clock::Real();
  std::unique_ptr<reactor::Reactor> pause = reactor::Reactor::MakeManual(clock);
  for (int64_t end_ns = clock->NowNs() + 10 * kSecondNs; !done();) {
    if (clock->NowNs() > end_ns) return false;
    reactor::Completion nap;
    (void)nap.Wait(*pause, clock->NowNs() + kMillisecondNs);
  }
  return true;
}

// A client and a server, each on a thread of its own.
class TcpPair {
 public:
  explicit TcpPair(const Options& options = {})
      : client_shared_(options), server_shared_(options), tcp_(transport::MakeTcp({})) {
    client_home = reactor::Reactor::Start(reactor::Options()).value();
    server_home = reactor::Reactor::Start(reactor::Options()).value();
    server_home->Run([this] {
      listener_ = tcp_->Listen(*server_home, {"127.0.0.1", 0},
                               [this](std::unique_ptr<transport::Incoming> incoming) {
                                 Meet(&servers, &server_shared_, server_home.get(), Role::kAcceptor,
                                      incoming->Adopt(*server_home).value());
                               })
                      .value();
      address_ = listener_->address();
    });
  }
  ~TcpPair() {
    client_home->Run([this] {
      dialings_.clear();
      clients.clear();
    });
    server_home->Run([this] {
      listener_.reset();
      servers.clear();
    });
  }

  struct End {
    RecordingReceiver receiver;
    std::unique_ptr<Pipe> pipe;
    std::atomic<bool> open{false};
    std::atomic<bool> closed{false};
  };

  // One more pipe; both ends are open when it returns.
  void Connect() {
    size_t before = clients.size();
    client_home->Run([this] {
      dialings_.push_back(tcp_->Dial(*client_home, listener_->address(), 5 * kSecondNs,
                                     [this](Result<std::unique_ptr<transport::Connection>> made) {
                                       Meet(&clients, &client_shared_, client_home.get(), Role::kDialer,
                                            std::move(made).value());
                                     }));
    });
    ASSERT_TRUE(WaitFor([&] {
      bool open = false;
      client_home->Run([&] { open = clients.size() > before && clients[before]->open; });
      if (open) server_home->Run([&] { open = servers.size() > before && servers[before]->open; });
      return open;
    }));
  }

  const transport::Address& address() const { return address_; }

  std::unique_ptr<reactor::Reactor> client_home, server_home;
  std::vector<std::unique_ptr<End>> clients, servers;

 private:
  static void Meet(std::vector<std::unique_ptr<End>>* ends, PipeContext* context, reactor::Reactor* home, Role role,
                   std::unique_ptr<transport::Connection> connection) {
    ends->push_back(std::make_unique<End>());
    End* end = ends->back().get();
    end->pipe = std::make_unique<Pipe>(*context, *home, std::move(connection), role, kTestService, &end->receiver);
    end->receiver.pipe = end->pipe.get();
    end->receiver.keep = false;
    end->receiver.on_open = [end] { end->open = true; };
    end->receiver.on_closed = [end] { end->closed = true; };
    end->pipe->Start();
  }

  PipeContext client_shared_, server_shared_;
  std::unique_ptr<transport::Transport> tcp_;
  std::unique_ptr<transport::Listener> listener_;
  transport::Address address_;
  std::vector<std::unique_ptr<transport::Dialing>> dialings_;
};

TEST(PipeOnTcp, ExpressNeverWaitsBehindMoreThanAMegabyteOfASlowReader) {
  std::string bulk(256 << 20, 'b');
  std::atomic<uint64_t> asked_at{0}, worst{0}, arrived{0};
  std::atomic<bool> bulk_done{false};
  TcpPair pair;
  pair.Connect();
  TcpPair::End &client = *pair.clients[0], &server = *pair.servers[0];
  pair.server_home->Run([&] {
    server.receiver.on_message = [&](const wire::FrameHeader& header) {
      if (header.kind == FrameKind::kCall) {
        bulk_done = true;
      } else {
        worst = std::max<uint64_t>(worst, server.pipe->stats().bytes_in.Read() - asked_at);
        ++arrived;
      }
      return Status::Ok();
    };
  });
  pair.client_home->Run([&] { client.pipe->Send(MakeMessage(FrameKind::kCall, 1, "", bulk)); });
  uint64_t asked = 0;
  while (!bulk_done && asked < 30) {
    // The reader does not read until all buffers between the two are full.
    std::atomic<bool> goes_on{false}, stands{false};
    pair.server_home->Post([&] {
      stands = true;
      while (!goes_on) std::this_thread::yield();
    });
    ASSERT_TRUE(WaitFor([&] { return stands.load(); }));
    uint64_t sent = UINT64_MAX;
    ASSERT_TRUE(WaitFor([&] { return std::exchange(sent, client.pipe->stats().bytes_out.Read()) == sent; }));
    asked_at = server.pipe->stats().bytes_in.Read();
    ++asked;
    pair.client_home->Run([&] { client.pipe->Send(MakeMessage(FrameKind::kMessage, asked, "urgent", "", true)); });
    goes_on = true;
    ASSERT_TRUE(WaitFor([&] { return arrived == asked; }));
  }
  EXPECT_GT(asked, 3u);
  EXPECT_LE(worst, 1u << 20);
}

// Both ends of both pipes share a reactor with the stream's.
TEST(PipeOnTcp, AStreamDoesNotStarveItsNeighbours) {
  std::string bulk(1 << 20, 'b');
  std::atomic<uint64_t> streamed{0}, echoes{0};
  TcpPair pair;
  pair.Connect();
  pair.Connect();
  constexpr uint64_t kMessages = 600;
  pair.server_home->Run([&] {
    for (auto& server : pair.servers) {
      Pipe* pipe = server->pipe.get();
      server->receiver.on_message = [&streamed, pipe](const wire::FrameHeader& header) {
        if (header.kind == FrameKind::kMessage) ++streamed;
        if (header.kind == FrameKind::kCall) pipe->Send(MakeMessage(FrameKind::kReply, header.call, "echo", "", true));
        return Status::Ok();
      };
    }
  });
  pair.client_home->Run([&] {
    Pipe* pipe = pair.clients[1]->pipe.get();
    pair.clients[1]->receiver.on_message = [&echoes, pipe](const wire::FrameHeader& header) {
      ++echoes;
      pipe->Send(MakeMessage(FrameKind::kCall, header.call + 1, "call", "", true));
      return Status::Ok();
    };
    pipe->Send(MakeMessage(FrameKind::kCall, 1, "call", "", true));
    for (uint64_t i = 0; i < kMessages; ++i) pair.clients[0]->pipe->Send(MakeMessage(FrameKind::kMessage, i, "", bulk));
  });
  ASSERT_TRUE(WaitFor([&] { return streamed > 100; }));
  uint64_t echoes_before = echoes, streamed_before = streamed;
  ASSERT_TRUE(WaitFor([&] { return streamed == kMessages; }));
  uint64_t round_trips = echoes - echoes_before, streamed_meanwhile = kMessages - streamed_before;
  // The two wait for each other's turn now and then, but not for the stream's end. A busy machine gives one of the two
  // threads less time.
  EXPECT_GT(round_trips, streamed_meanwhile / 50);
}

// Less than is worth waking up for, again and again: its sender is slow, not silent.
TEST(PipeOnTcp, ALongBodyThatTricklesIsNotSilence) {
  Options options;
  options.silent_ns_max = 800 * kMillisecondNs;
  TcpPair pair(options);
  pair.Connect();
  TcpPair::End& server = *pair.servers[0];
  std::unique_ptr<transport::Transport> tcp = transport::MakeTcp({});
  RawPeer raw(Role::kDialer, options);
  std::unique_ptr<transport::Dialing> dialing;
  pair.client_home->Run([&] {
    dialing =
        tcp->Dial(*pair.client_home, pair.address(), 5 * kSecondNs,
                  [&](Result<std::unique_ptr<transport::Connection>> made) { raw.Meet(std::move(made).value()); });
  });
  ASSERT_TRUE(WaitFor([&] {
    bool open = false;
    pair.server_home->Run([&] { open = pair.servers.size() > 1 && pair.servers[1]->open; });
    return open;
  }));
  TcpPair::End& slow = *pair.servers[1];
  FrameScript script(options.limits.chunk_bytes_max);
  constexpr uint64_t kBody = 200 << 10;
  pair.client_home->Run([&] { raw.Say(script.Begin(FrameKind::kMessage, 0, "", {kBody})); });
  // For twice the limit, a hundred bytes at a time.
  Clock* clock = Clock::Real();
  int64_t end_ns = clock->NowNs() + 2 * options.silent_ns_max;
  uint64_t said = 0;
  for (int64_t next_ns = 0; clock->NowNs() < end_ns;) {
    if (clock->NowNs() < next_ns) {
      std::this_thread::yield();
      continue;
    }
    next_ns = clock->NowNs() + 20 * kMillisecondNs;
    pair.client_home->Run([&] { raw.Say(std::string(100, 'x')); });
    said += 100;
  }
  EXPECT_FALSE(slow.closed);
  pair.client_home->Run([&] { raw.Say(std::string(kBody - said, 'x')); });
  EXPECT_TRUE(WaitFor([&] {
    uint64_t messages = 0;
    pair.server_home->Run([&] { messages = slow.receiver.messages; });
    return messages == 1;
  }));
  EXPECT_FALSE(server.closed);
  pair.client_home->Run([&] {
    dialing.reset();
    raw.Drop();
  });
}

// Also when so much of what it sends lies unread that closing a socket would reset the connection.
TEST(PipeOnTcp, TheGoodbyeReachesAPeerThatIsSending) {
  for (int round = 0; round < 5; ++round) {
    std::string bulk(32 << 20, 'b');
    TcpPair pair;
    pair.Connect();
    TcpPair::End &client = *pair.clients[0], &server = *pair.servers[0];
    pair.client_home->Run([&] { client.pipe->Send(MakeMessage(FrameKind::kMessage, 1, "", bulk)); });
    ASSERT_TRUE(WaitFor([&] { return server.pipe->stats().bytes_in.Read() > 1 << 20; }));
    pair.server_home->Run([&] { server.pipe->Close(Status::Unavailable("the server is shutting down")); });
    ASSERT_TRUE(WaitFor([&] { return client.closed && server.closed; }));
    std::string why;
    pair.client_home->Run([&] { why = client.receiver.why.ToString(); });
    EXPECT_THAT(why, HasSubstr("the peer said goodbye: the server is shutting down")) << "round " << round;
  }
}

}  // namespace
}  // namespace fusewire::pipe
