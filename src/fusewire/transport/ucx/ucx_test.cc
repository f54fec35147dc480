// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The particulars of UCX: whether the stream really moves, and what happens if UCX is missing, broken or
// strange. The contract of a transport is tested in tests/conformance, death in tests/faults.
#include "fusewire/transport/transports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "fusewire/base/log.h"
#include "fusewire/base/sanitizers.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/transport/talker_test.h"
#include "fusewire/transport/ucx/control_message.h"
#include "fusewire/transport/ucx/worker.h"

namespace fusewire::transport {
namespace {

using reactor::AskHome;
using reactor::Eventually;
using testing::HasSubstr;

// Two homes, a that dials and b that listens, over transports of the test's choice.
class Ucx : public testing::Test {
 protected:
  Ucx() {
    // ThreadSanitizer can't look into libucp, whose own thread it takes for a race.
    no_ucx_ = kThreadSanitizer || !DescribeUcx({}).loaded;
    SetLogSink([](LogLevel, const char* line, void* self) { static_cast<Ucx*>(self)->Keep(line); }, this);
    setenv("UCX_TLS", "tcp", 1);
    a_ = std::move(reactor::Reactor::Start({})).value();
    b_ = std::move(reactor::Reactor::Start({})).value();
  }
  ~Ucx() override {
    AskHome(*a_, [this] {
      dialing_.reset();
      at_a_.reset();
    });
    AskHome(*b_, [this] {
      listener_.reset();
      at_b_.reset();
    });
    a_.reset();
    b_.reset();
    SetLogSink(nullptr, nullptr);
    unsetenv("UCX_TLS");
    unsetenv("UCX_MM_ERROR_HANDLING");
  }
  static std::unique_ptr<Transport> Over(const UcxOptions& options) { return MakeUcx(MakeTcp({}), options); }

  // True once both ends have a talker.
  bool Meet(std::unique_ptr<Transport> dials, std::unique_ptr<Transport> listens) {
    dials_ = std::move(dials);
    listens_ = std::move(listens);
    Address where = AskHome(*b_, [this] {
      listener_ = std::move(listens_->Listen(*b_, {"127.0.0.1", 0}, [this](std::unique_ptr<Incoming> incoming) {
                    at_b_ = std::make_unique<Talker>(2);
                    at_b_->Meet(incoming->Adopt(*b_).value());
                    arrived_ = true;
                  })).value();
      return listener_->address();
    });
    return Dial(where) && Eventually([this] { return arrived_.load(); });
  }
  bool Dial(const Address& where) {
    dialled_ = false;
    said_ = 0;
    AskHome(*a_, [this, where] {
      dialing_ = dials_->Dial(*a_, where, 5 * kSecondNs, [this](Result<std::unique_ptr<Connection>> made) {
        if (!made.ok()) return;
        at_a_ = std::make_unique<Talker>(1);
        at_a_->Meet(std::move(made).value());
        dialled_ = true;
      });
      return true;
    });
    return Eventually([this] { return dialled_.load(); });
  }
  bool Speak(uint64_t size) {
    AskHome(*a_, [&] { at_a_->SayPattern(size); });
    AskHome(*b_, [&] { at_b_->SayPattern(size); });
    said_ += size;
    return Eventually([&] { return at_a_->heard == said_ && at_b_->heard == said_; }) && at_a_->as_pattern &&
           at_b_->as_pattern;
  }
  std::string WireOfA() {
    return AskHome(*a_, [this] { return std::string(at_a_->connection()->wire()); });
  }
  std::string WireOfB() {
    return AskHome(*b_, [this] { return std::string(at_b_->connection()->wire()); });
  }
  void Keep(const char* line) {
    const std::string text = line;
    if (text.find("UCX") != std::string::npos) ++lines_;
    std::lock_guard<std::mutex> lock(mutex_);
    last_line_ = text;
  }
  std::string LastLine() {
    std::lock_guard<std::mutex> lock(mutex_);
    return last_line_;
  }

  bool no_ucx_ = false;
  std::unique_ptr<reactor::Reactor> a_, b_;
  std::unique_ptr<Transport> dials_, listens_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Dialing> dialing_;
  std::unique_ptr<Talker> at_a_, at_b_;
  uint64_t said_ = 0;  // by each end of the last connection
  std::atomic<bool> arrived_{false}, dialled_{false};
  std::atomic<int> lines_{0};
  std::mutex mutex_;
  std::string last_line_;  // any home's
};

#define FUSEWIRE_NEEDS_UCX() \
  if (no_ucx_) GTEST_SKIP() << "this machine has no UCX, or this build cannot look into it"

TEST_F(Ucx, TheStreamMovesOverTcp) {
  FUSEWIRE_NEEDS_UCX();
  ASSERT_TRUE(Meet(Over({}), Over({})));
  ASSERT_TRUE(Speak(5 << 20));
  EXPECT_EQ(WireOfA(), "ucx");
  EXPECT_EQ(WireOfB(), "ucx");
  EXPECT_EQ(lines_, 0) << LastLine();
}

TEST_F(Ucx, TheStreamMovesOverSharedMemory) {
  FUSEWIRE_NEEDS_UCX();
  setenv("UCX_TLS", "posix,sysv,cma", 1);
  setenv("UCX_MM_ERROR_HANDLING", "y", 1);
  ASSERT_TRUE(Meet(Over({}), Over({})));
  ASSERT_TRUE(Speak(5 << 20));
  EXPECT_EQ(WireOfA(), "ucx");
  EXPECT_EQ(WireOfB(), "ucx");
}

TEST_F(Ucx, AListenerWithoutItSaysNo) {
  FUSEWIRE_NEEDS_UCX();
  UcxOptions none;
  none.library = "libno-such-ucp.so";
  ASSERT_TRUE(Meet(Over({}), Over(none)));
  ASSERT_TRUE(Speak(300 * 1000));
  EXPECT_EQ(WireOfA(), "tcp");
  EXPECT_EQ(WireOfB(), "tcp");
  EXPECT_EQ(lines_, 1);
  EXPECT_THAT(LastLine(), HasSubstr("libno-such-ucp.so"));
}

TEST_F(Ucx, ADiallerWithoutItStaysWhereItIs) {
  UcxOptions none;
  none.library = "libno-such-ucp.so";
  ASSERT_TRUE(Meet(Over(none), Over(none)));
  ASSERT_TRUE(Speak(300 * 1000));
  EXPECT_EQ(WireOfA(), "tcp");
  EXPECT_EQ(WireOfB(), "tcp");
  EXPECT_EQ(lines_, 2);  // one for each home
}

TEST_F(Ucx, OtherFilesAndOtherLibrariesAreRefused) {
  const std::string path = testing::TempDir() + "fusewire-ucx-" + std::to_string(getpid()) + ".so";
  std::ofstream(path) << "this is no library";
  UcxOptions broken;
  broken.library = path;
  EXPECT_FALSE(DescribeUcx(broken).loaded);
  EXPECT_THAT(DescribeUcx(broken).why_not, HasSubstr(path));
  ASSERT_TRUE(Meet(Over(broken), Over(broken)));
  ASSERT_TRUE(Speak(1000));
  EXPECT_EQ(WireOfA(), "tcp");
  unlink(path.c_str());
  UcxOptions other;
  other.library = "libm.so.6";
  EXPECT_THAT(DescribeUcx(other).why_not, HasSubstr("it has no "));
}

TEST_F(Ucx, APlainDiallerIsHeard) {
  FUSEWIRE_NEEDS_UCX();  // the listener loads it
  ASSERT_TRUE(Meet(MakeTcp({}), Over({})));
  ASSERT_TRUE(Speak(300 * 1000));
  EXPECT_EQ(WireOfB(), "tcp");
}

TEST_F(Ucx, WiresThatDoNotExistLeaveTcp) {
  FUSEWIRE_NEEDS_UCX();
  setenv("UCX_TLS", "rc_mlx5", 1);
  ASSERT_TRUE(Meet(Over({}), Over({})));
  ASSERT_TRUE(Speak(300 * 1000));
  EXPECT_EQ(WireOfA(), "tcp");
}

TEST_F(Ucx, LoadingItChangesNoSignal) {
  FUSEWIRE_NEEDS_UCX();
  for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
    struct sigaction before = {}, after = {};
    sigaction(number, nullptr, &before);
    EXPECT_TRUE(DescribeUcx({}).loaded);
    sigaction(number, nullptr, &after);
    EXPECT_EQ(before.sa_sigaction, after.sa_sigaction) << number;
  }
}

TEST_F(Ucx, DescribesItself) {
  FUSEWIRE_NEEDS_UCX();
  const UcxDescription description = DescribeUcx({});
  EXPECT_THAT(description.version, HasSubstr("."));
  EXPECT_EQ(description.why_not, "");
}

#if FUSEWIRE_HAS_UCX

// Endpoints that are renewed after a failure that only one side has seen, for example a cable that was pulled.
class UcxRenewed : public Ucx {
 protected:
  // At home.
  static std::string AddressOf(reactor::Reactor& home) { return UcxWorker::Of(home, {}).value()->address().ToString(); }
  static UcxPeer* Reached(reactor::Reactor& home, const std::string& address) {
    return UcxWorker::Of(home, {}).value()->endpoints().Reach(ConstBytes(address.data(), address.size())).value();
  }
};

TEST_F(UcxRenewed, ARenewedPeerReplacesItAndItsConnectionsKeepIt) {
  FUSEWIRE_NEEDS_UCX();
  ASSERT_TRUE(Meet(Over({}), Over({})));
  ASSERT_TRUE(Speak(3 << 20));
  const std::string b = AskHome(*b_, [this] { return AddressOf(*b_); });
  AskHome(*a_, [&] {
    const ConstBytes address(b.data(), b.size());
    UcxEndpoints& endpoints = UcxWorker::Of(*a_, {}).value()->endpoints();
    const UcxPeer* old = Reached(*a_, b);
    const uint64_t theirs = old->theirs;
    EXPECT_NE(theirs, 0u);
    EXPECT_EQ(endpoints.Meet(address, theirs).value(), old);
    const UcxPeer* renewed = endpoints.Meet(address, theirs + 2).value();
    EXPECT_NE(renewed, old);
    EXPECT_EQ(renewed->name, old->name);  // b need not renew its own for that
    EXPECT_EQ(Reached(*a_, b), renewed);
  });
  EXPECT_TRUE(Speak(3 << 20));
}

// UCX 1.13 aborts if an endpoint is closed while its peer connects it: here, both have spoken over it before.
TEST_F(UcxRenewed, OneThatLeadsNowhereIsNotUsedAgain) {
  FUSEWIRE_NEEDS_UCX();
  ASSERT_TRUE(Meet(Over({}), Over({})));
  ASSERT_TRUE(Speak(3 << 20));
  const std::string a = AskHome(*a_, [this] { return AddressOf(*a_); });
  const std::string b = AskHome(*b_, [this] { return AddressOf(*b_); });
  AskHome(*a_, [&] {
    at_a_.reset();
    UcxPeer* old = Reached(*a_, b);
    const uint64_t name = old->name;
    UcxWorker::Of(*a_, {}).value()->endpoints().Break(old, UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_NE(Reached(*a_, b)->name, name);  // by which b learns that its own leads nowhere
  });
  arrived_ = false;
  ASSERT_TRUE(Dial(AskHome(*b_, [this] { return listener_->address(); })));
  ASSERT_TRUE(Eventually([this] { return arrived_.load(); }));
  EXPECT_TRUE(Speak(3 << 20));
  EXPECT_EQ(WireOfA(), "ucx");
  struct Names {
    uint64_t ours, theirs;
  };
  const auto names = [](const UcxPeer* peer) { return Names{peer->name, peer->theirs}; };
  const Names of_a = AskHome(*a_, [&] { return names(Reached(*a_, b)); });
  const Names of_b = AskHome(*b_, [&] { return names(Reached(*b_, a)); });
  EXPECT_EQ(of_a.ours, of_b.theirs);
  EXPECT_EQ(of_b.ours, of_a.theirs);
}

#endif

// A peer that sends the magic word and then nonsense.
TEST_F(Ucx, AStrangersGreetingCostsItsConnection) {
  FUSEWIRE_NEEDS_UCX();
  UcxControlMessage old, huge, odd, again;
  old.version = 99;
  huge.address_bytes = UINT32_MAX;
  odd.kind = UcxControlKind::kEnd;
  again.kind = UcxControlKind::kWelcome;
  for (const UcxControlMessage& message : {old, huge, odd, again}) {
    arrived_ = false;
    ASSERT_TRUE(Meet(MakeTcp({}), Over({})));
    AskHome(*a_, [&] { at_a_->Say(std::string(reinterpret_cast<const char*>(&message), sizeof(message))); });
    EXPECT_TRUE(Eventually([&] { return at_b_->closed > 0 && at_a_->closed > 0; }));
    AskHome(*b_, [&] {
      EXPECT_EQ(at_b_->why().code(), Code::kCorrupt) << at_b_->why().ToString();
      at_b_.reset();
      listener_.reset();
    });
  }
}

}  // namespace
}  // namespace fusewire::transport
