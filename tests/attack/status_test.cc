// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The status port: proofs that were made for another place, and strangers that hold its connections and its memory.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "faults.h"
#include "fusewire/observe/port.h"

namespace fusewire::attack {
namespace {

using observe::Answer;
using observe::Port;
using observe::Request;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kSecret[] = "a secret of the cluster";
constexpr size_t kLargeBytes = 12 << 20, kPageBytes = 3 << 19;

std::unique_ptr<Port> OpenPort(Port::Options options = Port::Options()) {
  options.answer = [](const Request& request) {
    Answer answer;
    answer.body = "you asked for " + request.target;
    if (request.path == "/large") answer.body = std::string(kLargeBytes, 'x');
    if (request.path == "/page") answer.body = std::string(kPageBytes, 'x');
    return answer;
  };
  Result<std::unique_ptr<Port>> port = Port::Open(std::move(options));
  EXPECT_TRUE(port.ok()) << port.status().ToString();
  return port.ok() ? std::move(port).value() : nullptr;
}

// Its descriptor is there before it connects.
class Client {
 public:
  explicit Client(int receive_bytes = 0) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{20, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (receive_bytes > 0) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  }
  Client(const Client&) = delete;
  ~Client() { close(socket_); }

  bool Connect(const std::string& host, uint16_t port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    return inet_pton(AF_INET, host.c_str(), &to.sin_addr) == 1 &&
           connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }
  bool Send(const std::string& bytes) {
    return send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  // Up to `most` bytes; fewer at the end.
  std::string Read(size_t most = SIZE_MAX) {
    std::string all;
    char bytes[4096];
    ssize_t got;
    while (all.size() < most && (got = recv(socket_, bytes, std::min(sizeof(bytes), most - all.size()), 0)) > 0)
      all.append(bytes, static_cast<size_t>(got));
    return all;
  }
  // Whether there is something to read, or the end, before `limit_ns` have passed.
  bool IsTold(int64_t limit_ns) {
    pollfd wait{socket_, POLLIN, 0};
    return poll(&wait, 1, static_cast<int>(limit_ns / kMillisecondNs)) > 0;
  }

 private:
  const int socket_;
};

std::string Get(const std::string& host, uint16_t port, const std::string& target, const std::string& more = "") {
  Client client;
  if (!client.Connect(host, port)) return "no connection";
  client.Send("GET " + target + " HTTP/1.0\r\nHost: " + host + ":" + std::to_string(port) + "\r\n" + more + "\r\n");
  return client.Read();
}

int64_t NowMs() {
  timespec now{};
  std::timespec_get(&now, TIME_UTC);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// A request of a member of the cluster to `place`, "HOST:PORT".
std::string ProvenGet(const std::string& place, const std::string& nonce) {
  const std::string time = std::to_string(NowMs());
  const std::string proof = observe::ProofOf(kSecret, time, nonce, place, "/x");
  return "GET /x HTTP/1.0\r\nHost: " + place + "\r\nAuthorization: Fusewire " + time + ":" + nonce + ":" + proof +
         "\r\n\r\n";
}

std::string Ask(const std::string& host, uint16_t port, const std::string& request) {
  Client client;
  if (!client.Connect(host, port)) return "no connection";
  client.Send(request);
  return client.Read();
}

std::unique_ptr<Port> OpenProvenPort(const std::string& host, uint16_t number = 0) {
  Port::Options options;
  options.host = host;
  options.port = number;
  options.secret = kSecret;
  return OpenPort(std::move(options));
}

TEST(StatusPort, AProofForOneHostIsRefusedAtAnother) {
  std::unique_ptr<Port> here = OpenProvenPort("127.0.0.1");
  std::unique_ptr<Port> there = OpenProvenPort("127.0.0.2", here->port());
  const std::string place = "127.0.0.1:" + std::to_string(here->port());
  const std::string request = ProvenGet(place, "0123456789abcdef");
  EXPECT_THAT(Ask("127.0.0.2", there->port(), request), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(Ask("127.0.0.2", there->port(), request), HasSubstr("is for " + place));
  EXPECT_THAT(Ask("127.0.0.1", here->port(), request), EndsWith("you asked for /x"));
}

TEST(StatusPort, AProofForOneAddressOfAHostIsRefusedAtItsOthers) {
  std::unique_ptr<Port> port = OpenProvenPort("0.0.0.0");
  const std::string request = ProvenGet("127.0.0.1:" + std::to_string(port->port()), "0123456789abcdef");
  EXPECT_THAT(Ask("127.0.0.2", port->port(), request), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(Ask("127.0.0.1", port->port(), request), EndsWith("you asked for /x"));
}

TEST(StatusPort, AProofForAnotherPortIsRefused) {
  std::unique_ptr<Port> port = OpenProvenPort("127.0.0.1");
  const std::string request = ProvenGet("127.0.0.1:" + std::to_string(port->port() - 1), "0123456789abcdef");
  EXPECT_THAT(Ask("127.0.0.1", port->port(), request), StartsWith("HTTP/1.1 401 "));
}

TEST(StatusPort, AProofCountsOnceAlsoIfTheProcessRestarts) {
  std::unique_ptr<Port> port = OpenProvenPort("127.0.0.1");
  const uint16_t number = port->port();
  const std::string request = ProvenGet("127.0.0.1:" + std::to_string(number), "0123456789abcdef");
  EXPECT_THAT(Ask("127.0.0.1", number, request), EndsWith("you asked for /x"));
  EXPECT_THAT(Ask("127.0.0.1", number, request), HasSubstr("has been used"));
  port.reset();
  const int64_t ended_ms = NowMs();
  ASSERT_TRUE(faults::Eventually([ended_ms] { return NowMs() > ended_ms; }));  // no process begins sooner
  port = OpenProvenPort("127.0.0.1", number);
  EXPECT_THAT(Ask("127.0.0.1", number, request), HasSubstr("was made before"));
}

TEST(StatusPort, SilentConnectionsKeepNobodyOut) {
  std::unique_ptr<Port> port = OpenPort();
  std::vector<std::unique_ptr<Client>> silent;
  for (size_t i = 0; i < 3 * Port::kConnectionsMax; ++i) {
    silent.push_back(std::make_unique<Client>());
    ASSERT_TRUE(silent.back()->Connect("127.0.0.1", port->port()));
  }
  const int64_t begun_ns = Clock::Real()->NowNs();
  EXPECT_THAT(Get("127.0.0.1", port->port(), "/next"), EndsWith("you asked for /next"));
  EXPECT_LT(Clock::Real()->NowNs() - begun_ns, 2 * kSecondNs);  // `fusewire top` gives up then
}

TEST(StatusPort, SlowReadersKeepNobodyOut) {
  std::unique_ptr<Port> port = OpenPort();
  std::vector<std::unique_ptr<Client>> slow;
  for (size_t i = 0; i < Port::kConnectionsMax; ++i) {
    slow.push_back(std::make_unique<Client>(4096));
    ASSERT_TRUE(slow.back()->Connect("127.0.0.1", port->port()));
    ASSERT_TRUE(slow.back()->Send("GET /page HTTP/1.0\r\n\r\n"));
  }
  const int64_t begun_ns = Clock::Real()->NowNs();
  EXPECT_THAT(Get("127.0.0.1", port->port(), "/next"), EndsWith("you asked for /next"));
  EXPECT_LT(Clock::Real()->NowNs() - begun_ns, 2 * kSecondNs);
}

TEST(StatusPort, AnswersThatNobodyReadsHoldABoundedMemory) {
  std::unique_ptr<Port> port = OpenPort();
  std::vector<std::unique_ptr<Client>> slow;
  for (size_t i = 0; i < 8; ++i) {
    slow.push_back(std::make_unique<Client>(4096));
    ASSERT_TRUE(slow.back()->Connect("127.0.0.1", port->port()));
    ASSERT_TRUE(slow.back()->Send("GET /large HTTP/1.0\r\n\r\n"));
    ASSERT_TRUE(slow.back()->IsTold(20 * kSecondNs));
  }
  size_t whole = 0;
  for (const auto& client : slow) whole += client->Read().size() >= kLargeBytes ? 1 : 0;
  EXPECT_LE(whole * kLargeBytes, size_t{32} << 20);
  EXPECT_GE(whole, 1u);
  EXPECT_GE(Get("127.0.0.1", port->port(), "/large").size(), kLargeBytes);
}

// The time limit is that of the whole request: a byte does not start it again.
TEST(StatusPort, ARequestThatDripsIsGivenUp) {
  Port::Options options;
  options.patience_ns = kSecondNs;
  std::unique_ptr<Port> port = OpenPort(std::move(options));
  Client speaker, reader(4096);
  ASSERT_TRUE(speaker.Connect("127.0.0.1", port->port()));
  ASSERT_TRUE(reader.Connect("127.0.0.1", port->port()));
  ASSERT_TRUE(reader.Send("GET /large HTTP/1.0\r\n\r\n"));
  const int64_t begun_ns = Clock::Real()->NowNs();
  size_t read = 0;
  bool ended = false;
  while (!ended && Clock::Real()->NowNs() - begun_ns < 10 * kSecondNs) {
    (void)speaker.Send("a");
    ended = speaker.IsTold(10 * kMillisecondNs);
    if (!ended) read += reader.Read(512).size();
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(speaker.Read(), "");
  EXPECT_LT(read + reader.Read().size(), kLargeBytes);
  EXPECT_LT(Clock::Real()->NowNs() - begun_ns, 5 * kSecondNs);
}

// Of this process.
int64_t ProcessorNs() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * kSecondNs + now.tv_nsec;
}

TEST(StatusPort, WithoutDescriptorsItAnswersAndRests) {
  std::unique_ptr<Port> port = OpenPort();
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(std::make_unique<Client>());
  Client friend_of_ours, later;
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(next, 0);
  close(next);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit none{static_cast<rlim_t>(next), old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (const auto& client : silent) EXPECT_TRUE(client->Connect("127.0.0.1", port->port()));
  const int64_t begun_ns = ProcessorNs();
  EXPECT_TRUE(friend_of_ours.Connect("127.0.0.1", port->port()));
  EXPECT_TRUE(friend_of_ours.Send("GET /now HTTP/1.0\r\n\r\n"));
  const bool is_told = friend_of_ours.IsTold(5 * kSecondNs);
  const int64_t used_ns = ProcessorNs() - begun_ns;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_TRUE(is_told);
  EXPECT_THAT(friend_of_ours.Read(), EndsWith("you asked for /now"));
  EXPECT_LT(used_ns, 100 * kMillisecondNs);  // of two seconds: the silent ones were there first
  ASSERT_TRUE(later.Connect("127.0.0.1", port->port()));
  ASSERT_TRUE(later.Send("GET /later HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(later.Read(), EndsWith("you asked for /later"));
}

}  // namespace
}  // namespace fusewire::attack
