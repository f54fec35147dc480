// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/observe/client_test.h"

namespace fusewire::observe {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::unique_ptr<Port> OpenPort(Port::Options options = Port::Options()) {
  if (options.answer == nullptr) {
    options.answer = [](const Request& request) {
      Answer answer;
      answer.body = request.path == "/large" ? std::string(4 << 20, 'x') : "you asked for " + request.target;
      return answer;
    };
  }
  Result<std::unique_ptr<Port>> port = Port::Open(std::move(options));
  EXPECT_TRUE(port.ok()) << port.status().ToString();
  return std::move(port).value();
}

TEST(Port, AnswersManyOneAfterTheOther) {
  std::unique_ptr<Port> port = OpenPort();
  for (int i = 0; i < 100; ++i) {
    const std::string answer = Get(port->port(), "/" + std::to_string(i));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer, EndsWith("you asked for /" + std::to_string(i)));
  }
}

TEST(Port, ALargeAnswerArrivesWhole) {
  std::unique_ptr<Port> port = OpenPort();
  const std::string answer = Get(port->port(), "/large");
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, size_t{4} << 20);
}

TEST(Port, ARequestMayComeByteByByteAndMoreThanItIsIgnored) {
  std::unique_ptr<Port> port = OpenPort();
  Client client(port->port());
  const std::string request = "GET /slow HTTP/1.0\r\n\r\n";
  for (const char byte : request.substr(0, request.size() - 1)) ASSERT_TRUE(client.Send(std::string(1, byte)));
  ASSERT_TRUE(client.Send("\nGET /next HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(client.ReadAll(), EndsWith("you asked for /slow"));
}

TEST(Port, RefusesMalformedRequests) {
  std::unique_ptr<Port> port = OpenPort();
  Client stranger(port->port());
  stranger.Send("\x16\x03\x01 a greeting of TLS\r\n\r\n");
  EXPECT_THAT(stranger.ReadAll(), StartsWith("HTTP/1.1 400 "));
  Client talker(port->port());
  talker.Send(std::string(kRequestBytesMax + 1, 'a'));
  EXPECT_THAT(talker.ReadAll(), StartsWith("HTTP/1.1 431 "));
  Client rebound(port->port());
  rebound.Send("GET / HTTP/1.1\r\nHost: evil.example.com\r\n\r\n");
  EXPECT_THAT(rebound.ReadAll(), StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(Get(port->port(), "/after"), EndsWith("you asked for /after"));
}

TEST(Port, TheOldestSilentClientGivesWay) {
  std::unique_ptr<Port> port = OpenPort();
  std::vector<std::unique_ptr<Client>> silent;
  for (size_t i = 0; i < Port::kConnectionsMax; ++i) silent.push_back(std::make_unique<Client>(port->port()));
  for (const auto& client : silent) ASSERT_TRUE(client->is_connected());
  EXPECT_THAT(Get(port->port(), "/next"), EndsWith("you asked for /next"));
  EXPECT_EQ(silent[0]->ReadAll(), "");
  EXPECT_THAT(silent.back()->Get("/last"), EndsWith("you asked for /last"));
}

TEST(Port, ASilentClientIsGivenUpWhenItsPatienceEnds) {
  Port::Options options;
  options.patience_ns = 200 * kMillisecondNs;
  std::unique_ptr<Port> port = OpenPort(std::move(options));
  const int64_t begun_ns = Clock::Real()->NowNs();
  EXPECT_EQ(Client(port->port()).ReadAll(), "");
  EXPECT_GE(Clock::Real()->NowNs() - begun_ns, 200 * kMillisecondNs);
}

TEST(Port, AClientThatGoesAwayIsForgotten) {
  std::unique_ptr<Port> port = OpenPort();
  for (size_t i = 0; i < 3 * Port::kConnectionsMax; ++i) {
    Client client(port->port());
    client.Send(i % 2 == 0 ? "GET /large HTTP/1.0\r\n\r\n" : "GET ");
  }
  EXPECT_THAT(Get(port->port(), "/next"), EndsWith("you asked for /next"));
}

TEST(Port, WithASecretARequestNeedsAProof) {
  Port::Options options;
  options.secret = "secret";
  options.hosts = [] { return std::vector<std::string>{"Gateway.example"}; };
  std::unique_ptr<Port> port = OpenPort(std::move(options));
  EXPECT_THAT(Get(port->port(), "/x"), StartsWith("HTTP/1.1 401 "));
  const std::string end = ":" + std::to_string(port->port());
  const auto proof = [](const std::string& place, const std::string& nonce) {
    timespec now{};
    std::timespec_get(&now, TIME_UTC);
    const std::string time = std::to_string(int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000);
    return "Authorization: Fusewire " + time + ":" + nonce + ":" + ProofOf("secret", time, nonce, place, "/x") + "\r\n";
  };
  const std::string header = proof("127.0.0.1" + end, "0123456789abcdef");
  EXPECT_THAT(Client(port->port()).Get("/x", header), EndsWith("you asked for /x"));
  EXPECT_THAT(Client(port->port()).Get("/x", header), HasSubstr("has been used"));
  const std::string outside = "gateway.example" + end;  // where its task is reached
  Client client(port->port());
  client.Send("GET /x HTTP/1.0\r\nHost: " + outside + "\r\n" + proof(outside, "1123456789abcdef") + "\r\n");
  EXPECT_THAT(client.ReadAll(), EndsWith("you asked for /x"));
}

TEST(Port, APortThatIsTakenOrNoAddressIsAnError) {
  std::unique_ptr<Port> port = OpenPort();
  Port::Options options;
  options.port = port->port();
  Result<std::unique_ptr<Port>> second = Port::Open(options);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().ToString(), HasSubstr("opening the status port at 127.0.0.1:"));
  options.host = "a name";
  EXPECT_EQ(Port::Open(options).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace fusewire::observe
