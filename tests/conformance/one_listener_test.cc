// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A task's server, its endpoint and its collective group have one listener and one budget, over real transports, with
// as many reactors as tasks have.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/collective/group/group.h"
#include "fusewire/p2p/p2p.h"
#include "fusewire/pipe/link.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/task/acceptor.h"
#include "fusewire/task/task.h"
#include "fusewire/transport/transports.h"
#include "fusewire/wire/wire.h"

namespace fusewire {
namespace {

using testing::HasSubstr;

constexpr uint16_t kEcho = 1;
constexpr size_t kLargeBytes = 1 << 20;
constexpr uint64_t kTag = 7;
constexpr int64_t kDeadlineNs = 20 * kSecondNs;

struct Shape {
  task::TransportChoice wire;
  const char* name;
  int reactors;
  const char* secret;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name << ", " << shape.reactors << " reactors"; }

task::TaskOptions TaskOptionsOf(const Shape& shape, const std::string& name, int reactors) {
  task::TaskOptions options;
  options.pipe.name = name;
  options.pipe.secret = shape.secret;
  options.pool.reactors = reactors;
  options.wire = shape.wire;
  return options;
}

class OneListener : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    task_ = std::move(task::Task::Start(TaskOptionsOf(GetParam(), "ps:0", GetParam().reactors))).value();
    ASSERT_TRUE(task_->Listen({"127.0.0.1", 0}).ok());
    OpenServer();
    OpenEndpoint();
    client_task_ = std::move(task::Task::Start(TaskOptionsOf(GetParam(), "worker:0", 1))).value();
  }
  void OpenServer() {
    rpc::Method echo;
    echo.number = kEcho;
    echo.name = "echo";
    echo.handle = [](rpc::Request request, rpc::Reply reply) {
      reply.Send(Status::Ok(), request.head, std::move(request.body));
    };
    std::vector<rpc::Method> methods;
    methods.push_back(std::move(echo));
    server_ = std::move(rpc::Server::Open(*task_, std::move(methods))).value();
  }
  void TearDown() override {
    client_task_.reset();
    endpoint_.reset();
    server_.reset();
    task_.reset();
  }

  // It has another name than its task, as a TensorFlow server's has.
  void OpenEndpoint() {
    p2p::EndpointOptions options;
    options.pipe.name = "/job:ps";
    options.pipe.secret = GetParam().secret;
    auto opened = p2p::Endpoint::Open(*task_, std::move(options));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    endpoint_ = std::move(opened).value();
    EXPECT_EQ(endpoint_->address().ToString(), task_->address().ToString());
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
    p2p::Peer* there = peer->Connect("/job:ps", task_->address()).value();
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

  std::unique_ptr<task::Task> task_, client_task_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<p2p::Endpoint> endpoint_;
};

TEST_P(OneListener, ServesCallsAndMessages) {
  std::vector<std::unique_ptr<rpc::Client>> clients;
  std::vector<std::unique_ptr<p2p::Endpoint>> peers;
  for (int i = 0; i < GetParam().reactors + 1; ++i) {
    clients.push_back(std::make_unique<rpc::Client>(*client_task_, task_->address()));
    peers.push_back(Peer("/job:worker/" + std::to_string(i), GetParam().secret));
    ExpectEcho(clients.back().get());
    ExpectMessages(peers.back().get());
  }
  for (auto& client : clients) ExpectEcho(client.get());
  for (auto& peer : peers) ExpectMessages(peer.get());
  const std::string wire = GetParam().wire == task::TransportChoice::kAuto ? "shm" : GetParam().name;
  EXPECT_EQ(endpoint_->Expect(peers[0]->name()).value()->wire(), wire);
  const task::AcceptorStats stats = task_->acceptor().Snapshot();
  EXPECT_EQ(stats.open, 2 * clients.size());
  EXPECT_EQ(stats.turned_away, 0u);
}

TEST_P(OneListener, AnEndpointComesAndGoesWhileTheServerStays) {
  rpc::Client client(*client_task_, task_->address());
  auto peer = Peer("/job:worker", GetParam().secret);
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    ExpectMessages(peer.get());
    endpoint_.reset();
    ExpectEcho(&client);
    OpenEndpoint();
  }
}

// A server that comes and goes likewise.
TEST_P(OneListener, AServerComesAndGoesWhileTheEndpointStays) {
  auto peer = Peer("/job:worker", GetParam().secret);
  ExpectMessages(peer.get());
  const transport::Address address = task_->address();
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    server_.reset();
    rpc::Client client(*client_task_, address);
    EXPECT_EQ(client.Ask(kEcho, ConstBytes(), Buffers(), 100 * kMillisecondNs).status.code(), Code::kTimeout)
        << "it waits for the service to come back";
    ExpectMessages(peer.get());
    OpenServer();
    ExpectEcho(&client);
  }
}

// The ranks are this endpoint and a peer's.
TEST_P(OneListener, AGroupIsOfThatEndpoint) {
  auto peer = Peer("/job:worker", GetParam().secret);
  collective::GroupOptions options;
  options.name = "two";
  options.members = {{endpoint_->name(), task_->address()}, {peer->name(), peer->address()}};
  std::unique_ptr<collective::Group> groups[2];
  std::vector<float> arrays[2];
  collective::CollectiveSpec spec[2];
  for (int rank : {0, 1}) {
    options.rank = rank;
    auto made = collective::Group::Make(rank == 0 ? *endpoint_ : *peer, options);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    groups[rank] = std::move(made).value();
    arrays[rank].assign(100000, static_cast<float>(rank + 1));
    spec[rank].kind = collective::CollectiveKind::kAllReduce;
    spec[rank].counts = {arrays[rank].size()};
    spec[rank].to = {arrays[rank].data(), arrays[rank].size() * sizeof(float)};
  }
  auto ticket = groups[0]->StartTicket(spec[0]);
  Status other = groups[1]->Run(spec[1]);
  ticket->Wait();
  EXPECT_TRUE(other.ok()) << other.ToString();
  EXPECT_TRUE(ticket->status().ok()) << ticket->status().ToString();
  for (const auto& array : arrays) EXPECT_EQ(array, std::vector<float>(array.size(), 3.0f));
}

TEST_P(OneListener, RefusesUnknownPeers) {
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
  reactor::Reactor& home = client_task_->pool().at(0);
  std::unique_ptr<pipe::Link> link;
  home.Run([&] {
    link = std::make_unique<pipe::Link>(client_task_->context(), home, client_task_->transport(), task_->address(), 9,
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
  auto stranger = Peer("/job:stranger", "a secret of others");
  Status met = stranger->AwaitUp(*stranger->Connect("/job:ps", task_->address()).value(), kSecondNs);
  EXPECT_FALSE(met.ok());
  EXPECT_THAT(met.ToString(), HasSubstr("secret"));
}

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (const auto& [wire, name] :
       {std::pair(task::TransportChoice::kTcp, "tcp"), std::pair(task::TransportChoice::kShm, "shm"),
        std::pair(task::TransportChoice::kAuto, "auto")}) {
    for (int reactors : {1, 2, 4}) {
      for (const char* secret : {"", "open sesame open"}) shapes.push_back({wire, name, reactors, secret});
    }
  }
  return shapes;
}

std::string NameOf(const testing::TestParamInfo<Shape>& shape) {
  return shape.param.name + std::to_string(shape.param.reactors) + (*shape.param.secret != '\0' ? "Secret" : "");
}

INSTANTIATE_TEST_SUITE_P(Shapes, OneListener, testing::ValuesIn(Shapes()), NameOf);

// The TCP ports at which this process listens.
std::set<std::string> ListeningPorts() {
  std::set<uint64_t> own;  // inodes of our sockets
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat described = {};
    if (stat(entry.path().c_str(), &described) == 0 && S_ISSOCK(described.st_mode)) own.insert(described.st_ino);
  }
  std::set<std::string> ports;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream in(table);
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmits, user, timeout;
      uint64_t inode = 0;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
      if (state == "0A" && own.count(inode) != 0) ports.insert(local.substr(local.rfind(':') + 1));
    }
  }
  return ports;
}

class OneTask : public testing::TestWithParam<task::TransportChoice> {};

TEST_P(OneTask, WithAServerAnEndpointAndAGroupListensAtOnePortAndHasOneBudget) {
  const std::set<std::string> before = ListeningPorts();
  task::TaskOptions options = TaskOptionsOf({GetParam(), "", 2, ""}, "ps:0", 2);
  options.pipe.receive_budget_bytes = 64 << 20;  // one of its own: the process's would be theirs in any case
  options.pipe.window_budget_bytes = 64 << 20;
  auto task = std::move(task::Task::Start(std::move(options))).value();
  ASSERT_TRUE(task->Listen({"127.0.0.1", 0}).ok());
  auto server = std::move(rpc::Server::Open(*task, {})).value();
  p2p::EndpointOptions endpoint_options;
  endpoint_options.pipe.name = "/job:ps";
  auto endpoint = std::move(p2p::Endpoint::Open(*task, std::move(endpoint_options))).value();
  collective::GroupOptions group_options;
  group_options.name = "two";
  group_options.members = {{"/job:ps", task->address()}, {"/job:worker", {"127.0.0.1", 9}}};
  auto group = std::move(collective::Group::Make(*endpoint, std::move(group_options))).value();

  std::set<std::string> ports = ListeningPorts();
  for (const std::string& port : before) ports.erase(port);
  EXPECT_EQ(ports.size(), 1u);
  EXPECT_EQ(server->address().port, task->address().port);
  EXPECT_EQ(endpoint->address().port, task->address().port);
  EXPECT_EQ(&endpoint->context().receive_budget(), &task->context().receive_budget());
  EXPECT_EQ(&endpoint->context().windows(), &task->context().windows());

  // The windows of both services' pipes are taken from it.
  auto client_task = std::move(task::Task::Start(TaskOptionsOf({GetParam(), "", 1, ""}, "worker:0", 1))).value();
  rpc::Client client(*client_task, task->address());
  client.Ask(1, ConstBytes(), Buffers(), kDeadlineNs);
  const uint64_t one = task->context().windows().used_bytes();
  EXPECT_GT(one, 0u);
  p2p::EndpointOptions peer_options;
  peer_options.pipe.name = "/job:other";
  peer_options.wire = GetParam();
  auto peer = std::move(p2p::Endpoint::Start(std::move(peer_options), {"127.0.0.1", 0})).value();
  EXPECT_TRUE(peer->AwaitUp(*peer->Connect("/job:ps", task->address()).value(), kDeadlineNs).ok());
  EXPECT_GT(task->context().windows().used_bytes(), one);
  peer.reset();
  client.Close();
  group.reset();
  endpoint.reset();
  server.reset();
  EXPECT_EQ(task->context().windows().used_bytes(), 0u);
  EXPECT_EQ(task->context().receive_budget().used_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Wires, OneTask, testing::Values(task::TransportChoice::kTcp, task::TransportChoice::kAuto),
                         [](const auto& wire) { return wire.param == task::TransportChoice::kTcp ? "tcp" : "auto"; });

TEST(OneListenerAlone, AnEndpointHasItsOwnTaskWhereItIsStartedWithoutOne) {
  p2p::EndpointOptions options;
  options.pipe.name = "alone";
  options.wire = task::TransportChoice::kTcp;
  auto endpoint = std::move(p2p::Endpoint::Start(std::move(options), {"127.0.0.1", 0})).value();
  EXPECT_NE(endpoint->address().port, 0);
}

// A transport that chooses a connection's home before the end of the greeting gives each service a listener.
TEST(OneListenerAlone, ATransportThatKeepsHomesHasAListenerForEachService) {
  if (!transport::DescribeUcx({}).loaded) GTEST_SKIP() << "no UCX here";
  auto task =
      std::move(task::Task::Start(TaskOptionsOf({task::TransportChoice::kUcx, "ucx", 1, ""}, "ps:0", 1))).value();
  EXPECT_FALSE(task->transport().HandsOver());
  p2p::EndpointOptions options;
  options.pipe.name = "/job:ps";
  auto endpoint = std::move(p2p::Endpoint::Open(*task, std::move(options))).value();
  auto server = std::move(rpc::Server::Open(*task, {"127.0.0.1", 0}, {})).value();
  EXPECT_NE(endpoint->address().port, 0);
  EXPECT_NE(endpoint->address().port, server->address().port);
  EXPECT_EQ(server->address().port, task->address().port) << "the one of the lowest number comes first";
  server.reset();
  endpoint.reset();
}

}  // namespace
}  // namespace fusewire
