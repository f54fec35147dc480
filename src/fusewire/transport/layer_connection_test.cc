// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/layer_connection.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "fusewire/reactor/home_test.h"

namespace fusewire::transport {
namespace {

// Writes at once, and is asked twice until all has arrived.
class Quick final : public Connection {
 public:
  void Start(ConnectionHandler* handler) override { handler_ = handler; }
  void Write(const ConstBytes* parts, size_t) override { handler_->OnWritten(parts[0].size); }
  bool Delivered() override { return ++asked_ > 1; }
  void Close(Status why) override { handler_->OnClosed(std::move(why)); }
  const std::string& peer_address() const override { return peer_address_; }
  const char* wire() const override { return "quick"; }

 private:
  ConnectionHandler* handler_ = nullptr;
  int asked_ = 0;
  const std::string peer_address_ = "quick";
};

class Plain final : public Session {
 public:
  Plain() { SetReady(); }
  const char* wire() const override { return "plain"; }
  Status Handshake() override { return Status::Ok(); }
  Result<size_t> Read(Bytes into) override { return Take(into); }
  Status Write(ConstBytes said) override {
    Put(said);
    return Status::Ok();
  }
};

struct Handler final : ConnectionHandler {
  explicit Handler(Connection& its) : connection(its) {}
  size_t Landing(Bytes*, size_t) override { return 0; }
  void OnLanded(size_t) override {}
  size_t LookAhead() override { return 100; }
  void OnBytes(ConstBytes) override {}
  void OnWritten(size_t) override { EXPECT_FALSE(connection.Delivered()); }
  void OnDelivered() override { ++delivered; }
  void OnClosed(Status) override {}

  Connection& connection;
  int delivered = 0;
};

TEST(LayerConnection, TellsOfDeliveryAfterTheWriteInWhichItBecomesKnown) {
  std::unique_ptr<reactor::Reactor> home = reactor::StartOne();
  std::unique_ptr<LayerConnection> connection;
  std::unique_ptr<Handler> handler;
  auto delivered = [&] { return handler->delivered; };
  const int early = reactor::AskHome(*home, [&] {
    connection = std::make_unique<LayerConnection>(*home, std::make_unique<Quick>(), std::make_unique<Plain>());
    handler = std::make_unique<Handler>(*connection);
    connection->Start(handler.get());
    const ConstBytes said("hello", 5);
    connection->Write(&said, 1);
    return delivered();
  });
  EXPECT_EQ(early, 0);
  EXPECT_TRUE(reactor::Eventually([&] { return reactor::AskHome(*home, delivered) == 1; }));
  reactor::AskHome(*home, [&] {
    connection.reset();
    return true;
  });
}

}  // namespace
}  // namespace fusewire::transport
