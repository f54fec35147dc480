// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A task's server and its endpoint share one listener, over real transports, with as many reactors as tasks have.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/p2p/p2p.h"
#include "fusewire/pipe/acceptor.h"
#include "fusewire/pipe/link.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/transport/ucx/ucx.h"
#include "fusewire/transport/uring/uring.h"

namespace fusewire {
namespace {

using testing::HasSubstr;

constexpr uint16_t kEcho = 1;
constexpr size_t kLargeBytes = 1 << 20;
constexpr uint64_t kTag = 7;
constexpr int64_t kDeadlineNs = 20 * kSecondNs;

struct Shape {
  pipe::TransportChoice wire;
  const char* name;
  int reactors;
  const char* secret;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name << ", " << shape.reactors << " reactors"; }

rpc::NodeOptions NodeOptionsOf(const Shape& shape, const std::string& name, int reactors) {
  rpc::NodeOptions options;
  options.pipe.name = name;
  options.pipe.secret = shape.secret;
  options.pool.reactors = reactors;
  options.wire = shape.wire;
  return options;
}

class OneListener : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    if (GetParam().wire == pipe::TransportChoice::kUring && !transport::TryUring().ok())
      GTEST_SKIP() << "no io_uring here";
    node_ = std::move(rpc::Node::Start(NodeOptionsOf(GetParam(), "ps:0", GetParam().reactors))).value();
    rpc::Method echo;
    echo.number = kEcho;
    echo.name = "echo";
    echo.handle = [](rpc::Request request, rpc::Reply reply) {
      reply.Send(Status::Ok(), request.head, std::move(request.body));
    };
    std::vector<rpc::Method> methods;
    methods.push_back(std::move(echo));
    server_ = std::move(rpc::Server::Open(*node_, {"127.0.0.1", 0}, std::move(methods))).value();
    OpenEndpoint();
    client_node_ = std::move(rpc::Node::Start(NodeOptionsOf(GetParam(), "worker:0", 1))).value();
  }
  void TearDown() override {
    client_node_.reset();
    endpoint_.reset();
    server_.reset();
    node_.reset();
  }

  // At the last of the server's reactors: connections arrive at the first.
  void OpenEndpoint() {
    p2p::EndpointOptions options;
    options.pipe.name = "/job:ps";
    options.pipe.secret = GetParam().secret;
    reactor::Reactor& home = node_->pool().at(node_->pool().size() - 1);
    endpoint_ = std::move(p2p::Endpoint::Make(std::move(options), reactor::Pool::Around(&home),
                                              pipe::MakeTransport(GetParam().wire, {})))
                    .value();
    EXPECT_EQ(endpoint_->address().port, 0);
    Status listens = endpoint_->ListenWith(server_->acceptor());
    ASSERT_TRUE(listens.ok()) << listens.ToString();
    EXPECT_EQ(endpoint_->address().ToString(), server_->address().ToString());
  }
  std::unique_ptr<p2p::Endpoint> Peer(const std::string& name, const std::string& secret) {
    p2p::EndpointOptions options;
    options.pipe.name = name;
    options.pipe.secret = secret;
    options.wire = GetParam().wire;
    return std::move(p2p::Endpoint::Start(std::move(options), {"127.0.0.1", 0})).value();
  }
  void ExpectEcho(rpc::Client* client) {
    Buffers body;
    body.push_back(Buffer::TryAllocate(kLargeBytes));
    rpc::Client::Answer answer = client->Ask(kEcho, std::string("hello"), std::move(body), kDeadlineNs);
    ASSERT_TRUE(answer.status.ok()) << answer.status.ToString();
    EXPECT_EQ(answer.head, "hello");
  }
  // There and back, small and large.
  void ExpectMessages(p2p::Endpoint* peer) {
    p2p::Peer* there = peer->Connect("/job:ps", server_->address()).value();
    p2p::Peer* back = endpoint_->Expect(peer->name()).value();
    // It may have another endpoint in mind, which has gone.
    ASSERT_TRUE(reactor::Eventually(
        [&] { return peer->AwaitUp(*there).ok() && there->incarnation() == endpoint_->incarnation(); }, kDeadlineNs));
    for (size_t size : {size_t{5}, kLargeBytes}) {
      const std::string said(size, 'x');
      std::string heard(size, ' ');
      for (bool forth : {true, false}) {
        p2p::Endpoint &from = forth ? *peer : *endpoint_, &to = forth ? *endpoint_ : *peer;
        p2p::ReceiveOp receive(to, forth ? back : there, kTag, Bytes(heard.data(), heard.size()));
        receive.timeout_ns = kDeadlineNs;
        receive.Post();
        Status sent = from.Send(forth ? *there : *back, kTag, said, kDeadlineNs);
        EXPECT_TRUE(sent.ok()) << sent.ToString();
        receive.Wait();
        EXPECT_TRUE(receive.status().ok()) << receive.status().ToString();
        EXPECT_TRUE(heard == said);
      }
    }
  }

  std::unique_ptr<rpc::Node> node_, client_node_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<p2p::Endpoint> endpoint_;
};

TEST_P(OneListener, ServesCallsAndMessages) {
  std::vector<std::unique_ptr<rpc::Client>> clients;
  std::vector<std::unique_ptr<p2p::Endpoint>> peers;
  for (int i = 0; i < GetParam().reactors + 1; ++i) {
    clients.push_back(std::make_unique<rpc::Client>(*client_node_, server_->address()));
    peers.push_back(Peer("/job:worker/" + std::to_string(i), GetParam().secret));
    ExpectEcho(clients.back().get());
    ExpectMessages(peers.back().get());
  }
  for (auto& client : clients) ExpectEcho(client.get());
  for (auto& peer : peers) ExpectMessages(peer.get());
  const std::string wire = GetParam().wire == pipe::TransportChoice::kAuto ? "shm" : GetParam().name;
  EXPECT_EQ(endpoint_->Expect(peers[0]->name()).value()->wire(), wire);
  const pipe::AcceptorStats stats = server_->AcceptorSnapshot();
  EXPECT_EQ(stats.open, 2 * clients.size());
  EXPECT_EQ(stats.turned_away, 0u);
}

TEST_P(OneListener, AnEndpointComesAndGoesWhileTheServerStays) {
  rpc::Client client(*client_node_, server_->address());
  auto peer = Peer("/job:worker", GetParam().secret);
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    ExpectMessages(peer.get());
    endpoint_.reset();
    ExpectEcho(&client);
    OpenEndpoint();
  }
}

TEST_P(OneListener, RefusesWhomItDoesNotKnow) {
  struct Handler final : pipe::LinkHandler {
    void OnUp(const pipe::PeerInfo&, bool) override { up = true; }
    void OnDown(Status status, bool) override {
      why = std::move(status);
      down = true;
    }
    Result<pipe::Landing> OnHeader(const wire::FrameHeader&, ConstBytes) override { return pipe::Landing::Discard(); }
    Status OnMessage(const wire::FrameHeader&, ConstBytes, ConstBytes) override { return Status::Ok(); }
    Status why;
    std::atomic<bool> up{false}, down{false};
  } handler;
  reactor::Reactor& home = client_node_->pool().at(0);
  std::unique_ptr<pipe::Link> link;
  home.Run([&] {
    link = std::make_unique<pipe::Link>(client_node_->shared(), home, client_node_->transport(), server_->address(), 9,
                                        &handler);
    link->Want();
  });
  EXPECT_TRUE(reactor::Eventually([&] { return handler.down.load(); }, kDeadlineNs));
  home.Run([&] {
    EXPECT_FALSE(handler.up);
    EXPECT_EQ(handler.why.code(), Code::kRefused);
    EXPECT_THAT(handler.why.cause(), HasSubstr("service 9 is not offered here"));
    link.reset();
  });
  auto stranger = Peer("/job:stranger", "another secret");
  Status met = stranger->AwaitUp(*stranger->Connect("/job:ps", server_->address()).value(), kSecondNs);
  EXPECT_FALSE(met.ok());
  EXPECT_THAT(met.ToString(), HasSubstr("secret"));
}

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (const auto& [wire, name] :
       {std::pair(pipe::TransportChoice::kTcp, "tcp"), std::pair(pipe::TransportChoice::kUring, "uring"),
        std::pair(pipe::TransportChoice::kShm, "shm"), std::pair(pipe::TransportChoice::kAuto, "auto")}) {
    for (int reactors : {1, 2, 4}) {
      for (const char* secret : {"", "open sesame"}) shapes.push_back({wire, name, reactors, secret});
    }
  }
  return shapes;
}

std::string NameOf(const testing::TestParamInfo<Shape>& shape) {
  return shape.param.name + std::to_string(shape.param.reactors) + (*shape.param.secret != '\0' ? "Secret" : "");
}

INSTANTIATE_TEST_SUITE_P(Shapes, OneListener, testing::ValuesIn(Shapes()), NameOf);

TEST(OneListenerAlone, AnEndpointHasItsOwnWhereNobodySharesOne) {
  p2p::EndpointOptions options;
  options.pipe.name = "alone";
  options.wire = pipe::TransportChoice::kTcp;
  auto endpoint = std::move(p2p::Endpoint::Start(std::move(options), {"127.0.0.1", 0})).value();
  EXPECT_NE(endpoint->address().port, 0);
}

// What chooses a connection's home before the greeting is over says so.
TEST(OneListenerAlone, ATransportThatKeepsHomesTakesNobodyElse) {
  if (!transport::DescribeUcx({}).loaded) GTEST_SKIP() << "no UCX here";
  auto node =
      std::move(rpc::Node::Start(NodeOptionsOf({pipe::TransportChoice::kUcx, "ucx", 1, ""}, "ps:0", 1))).value();
  auto server = std::move(rpc::Server::Open(*node, {"127.0.0.1", 0}, {})).value();
  EXPECT_FALSE(node->transport().HandsOver());
  p2p::EndpointOptions options;
  options.pipe.name = "/job:ps";
  auto endpoint = std::move(p2p::Endpoint::Make(std::move(options), reactor::Pool::Around(&node->pool().at(0)),
                                                pipe::MakeTransport(pipe::TransportChoice::kUcx, {})))
                      .value();
  Status listens = endpoint->ListenWith(server->acceptor());
  EXPECT_EQ(listens.code(), Code::kUnavailable);
  EXPECT_TRUE(endpoint->Listen({"127.0.0.1", 0}).ok());
}

}  // namespace
}  // namespace fusewire
