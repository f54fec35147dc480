// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Neighbours: processes of the same user number in the same network namespace, but in another container.
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>

#include "fusewire/rpc/rpc.h"
#include "fusewire/transport/shm/control_message.h"
#include "fusewire/transport/tls/certificates_test.h"
#include "hostile.h"

namespace fusewire::attack {
namespace {

using faults::PeerProcess;

// How the peer stands apart, see tests/faults/peer.h; and whether there is TLS.
struct Case {
  const char* apart;
  bool tls;
};

class Neighbours : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().tls) certificates_ = std::make_unique<transport::Certificates>();
    std::string words = "name=ps:0";
    if (*GetParam().apart != '\0') words += std::string(" apart=") + GetParam().apart;
    if (GetParam().tls) words += " tls=" + certificates_->File("");
    peer_ = std::make_unique<PeerProcess>(words);
    if (peer_->first_words().rfind("failed: apart: ", 0) == 0) GTEST_SKIP() << peer_->first_words();
    ASSERT_TRUE(peer_->ready()) << peer_->first_words() << peer_->Log();
  }
  std::unique_ptr<task::Task> Start(bool with_certificate) {
    task::TaskOptions options;
    options.pipe.name = "worker:0";
    if (with_certificate) options.protection.tls = certificates_->Options();
    return std::move(task::Task::Start(std::move(options))).value();
  }
  static rpc::Client::Answer Ask(rpc::Client& client, int64_t timeout_ns = faults::kPatienceNs) {
    return client.Ask(faults::kEcho, std::string("are you there?"), Buffers(), timeout_ns);
  }
  bool IsApart() const { return *GetParam().apart != '\0'; }

  std::unique_ptr<transport::Certificates> certificates_;
  std::unique_ptr<PeerProcess> peer_;
};

class NeighboursApart : public Neighbours {};
class NeighboursUnderTls : public Neighbours {};

TEST_P(Neighbours, ShareMemoryInOneContainerOnly) {
  const auto task = Start(GetParam().tls);
  rpc::Client client(*task, peer_->address());
  const rpc::Client::Answer answer = Ask(client);
  EXPECT_TRUE(answer.status.ok()) << answer.status.ToString();
  EXPECT_EQ(answer.head, "are you there?");
  EXPECT_EQ(client.Snapshot().wire, !IsApart() ? "shm" : GetParam().tls ? "tls" : "tcp");
}

// What our own end would not do: it does not look at who is there, and speaks first.
TEST_P(NeighboursApart, AreTurnedAwayByTheListenerToo) {
  const auto address = peer_->address();
  const transport::UnixAddress place = transport::SocketName(address.host, address.port);
  const transport::Fd dials(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(dials.get(), place.get(), place.length), 0);
  transport::ShmControlMessage knock;
  knock.kind = transport::ShmControlKind::kKnock;
  (void)transport::SendControl(dials.get(), knock, nullptr);
  char answer[64];
  EXPECT_LE(recv(dials.get(), answer, sizeof(answer), 0), 0);
}

TEST_P(NeighboursUnderTls, NeedACertificateUnlessTheyShareMemory) {
  const auto task = Start(false);
  rpc::Client client(*task, peer_->address());
  const rpc::Client::Answer answer = Ask(client, IsApart() ? faults::Within(kSecondNs) : faults::kPatienceNs);
  EXPECT_EQ(answer.status.ok(), !IsApart()) << answer.status.ToString();
  EXPECT_EQ(peer_->AskNumbers("stats")["runs"], IsApart() ? 0 : 1);
}

constexpr Case kPlain[] = {{"user", false}, {"pid", false}, {"strangers", false}};
constexpr Case kTls[] = {{"user", true}, {"pid", true}, {"strangers", true}};
constexpr Case kTogether[] = {{"", false}, {"", true}};

std::string NameOf(const testing::TestParamInfo<Case>& each) {
  const std::string apart = each.param.apart;
  return (apart.empty() ? "together" : "apart_" + apart) + (each.param.tls ? "_tls" : "_plain");
}

INSTANTIATE_TEST_SUITE_P(Together, Neighbours, testing::ValuesIn(kTogether), NameOf);
INSTANTIATE_TEST_SUITE_P(Plain, Neighbours, testing::ValuesIn(kPlain), NameOf);
INSTANTIATE_TEST_SUITE_P(Tls, Neighbours, testing::ValuesIn(kTls), NameOf);
INSTANTIATE_TEST_SUITE_P(Plain, NeighboursApart, testing::ValuesIn(kPlain), NameOf);
INSTANTIATE_TEST_SUITE_P(Tls, NeighboursApart, testing::ValuesIn(kTls), NameOf);
INSTANTIATE_TEST_SUITE_P(Together, NeighboursUnderTls, testing::Values(kTogether[1]), NameOf);
INSTANTIATE_TEST_SUITE_P(Tls, NeighboursUnderTls, testing::ValuesIn(kTls), NameOf);

}  // namespace
}  // namespace fusewire::attack
