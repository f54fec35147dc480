// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "fusewire/transport/tls/certificates_test.h"
#include "fusewire/transport/tls/context.h"
#include "fusewire/transport/transports.h"

namespace fusewire::transport {
namespace {

#if FUSEWIRE_HAS_TLS

using testing::HasSubstr;

const Certificates& All() {
  static const auto* all = [] {
    auto* made = new Certificates;
    made->MakeAuthority("other");
    made->Make("stranger", "other");
    made->Make("old", "ca", "-1");
    return made;
  }();
  return *all;
}

// Two ends, and what is between them.
struct Ends {
  explicit Ends(const TlsOptions& client_options = All().Options(), const TlsOptions& server_options = All().Options())
      : client(TlsContext::Load(client_options).value()->NewSession(true).value()),
        server(TlsContext::Load(server_options).value()->NewSession(false).value()) {}

  // Brings what one end has to say to the other.
  static void Carry(Session* from, Session* to) {
    const std::string bytes(reinterpret_cast<const char*>(from->out().data), from->out().size);
    from->Sent(bytes.size());
    to->Feed(ConstBytes(bytes));
    to->KeepRest();
  }
  // Until both are ready, or one has failed.
  void Greet() {
    for (int i = 0; i < 10 && client_end.ok() && server_end.ok() && !(client->is_ready() && server->is_ready()); ++i) {
      if (!client->is_ready()) client_end = client->Handshake();
      Carry(client.get(), server.get());
      if (!server->is_ready()) server_end = server->Handshake();
      Carry(server.get(), client.get());
    }
  }
  static std::string ReadAll(Session* session, Status* status) {
    std::string all;
    for (;;) {
      uint8_t piece[1000];
      Result<size_t> read = session->Read(Bytes(piece, sizeof(piece)));
      *status = read.status();
      if (!read.ok() || read.value() == 0) return all;
      all.append(reinterpret_cast<const char*>(piece), read.value());
    }
  }

  std::unique_ptr<Session> client, server;
  Status client_end, server_end;
};

TEST(TlsSession, CarriesWhatIsWrittenBothWays) {
  Ends ends;
  ends.Greet();
  ASSERT_TRUE(ends.client->is_ready() && ends.server->is_ready())
      << ends.client_end.ToString() << ends.server_end.ToString();
  std::string text(100 * 1000, ' ');
  std::mt19937 random(1);
  for (char& letter : text) letter = static_cast<char>(random());
  Status status;
  ASSERT_TRUE(ends.client->Write(ConstBytes(text)).ok());
  EXPECT_GT(ends.client->out().size, text.size());
  Ends::Carry(ends.client.get(), ends.server.get());
  EXPECT_EQ(Ends::ReadAll(ends.server.get(), &status), text);
  EXPECT_TRUE(status.ok());
  ASSERT_TRUE(ends.server->Write(ConstBytes("short")).ok());
  Ends::Carry(ends.server.get(), ends.client.get());
  EXPECT_EQ(Ends::ReadAll(ends.client.get(), &status), "short");
  ends.client->Shutdown();
  Ends::Carry(ends.client.get(), ends.server.get());
  EXPECT_EQ(Ends::ReadAll(ends.server.get(), &status), "");
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.ToString();
}

TEST(TlsSession, EveryFlippedByteIsNoticed) {
  const std::string text = "a tensor of some bytes";
  for (size_t at : {size_t{0}, size_t{3}, size_t{5}, size_t{20}, size_t{40}}) {
    Ends ends;
    ends.Greet();
    ASSERT_TRUE(ends.client->Write(ConstBytes(text)).ok());
    std::string bytes(reinterpret_cast<const char*>(ends.client->out().data), ends.client->out().size);
    ASSERT_LT(at, bytes.size());
    bytes[at] ^= 1;
    ends.server->Feed(ConstBytes(bytes));
    Status status;
    EXPECT_EQ(Ends::ReadAll(ends.server.get(), &status), "");
    // A longer record waits for its rest; nothing of it is shown.
    if (at != 3) {
      EXPECT_EQ(status.code(), Code::kCorrupt) << at << ": " << status.ToString();
    }
    ends.server->KeepRest();
  }
}

TEST(TlsSession, APeerWithoutACertificateOfOurAuthorityIsRefused) {
  Ends strange_server(All().Options(), All().Options("stranger", "ca"));
  strange_server.Greet();
  EXPECT_EQ(strange_server.client_end.code(), Code::kRefused) << strange_server.client_end.ToString();
  EXPECT_THAT(strange_server.client_end.ToString(), HasSubstr("the peer's certificate: "));
  EXPECT_FALSE(strange_server.client->is_ready());

  Ends strange_client(All().Options("stranger", "ca"), All().Options());
  strange_client.Greet();
  EXPECT_EQ(strange_client.server_end.code(), Code::kRefused) << strange_client.server_end.ToString();
  EXPECT_FALSE(strange_client.server->is_ready());
  // The client was ready before the server knew; it learns of the refusal when it reads.
  Status status;
  Ends::ReadAll(strange_client.client.get(), &status);
  EXPECT_EQ(status.code(), Code::kRefused) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("refuses this task's certificate"));
}

TEST(TlsSession, AnOldCertificateIsRefused) {
  Ends ends(All().Options(), All().Options("old"));
  ends.Greet();
  EXPECT_EQ(ends.client_end.code(), Code::kRefused);
  EXPECT_THAT(ends.client_end.ToString(), HasSubstr("expired"));
}

TEST(TlsSession, ANameIsCheckedIfThereIsOne) {
  TlsOptions named = All().Options();
  named.name = "task";
  Ends good(named, named);
  good.Greet();
  EXPECT_TRUE(good.client->is_ready() && good.server->is_ready());
  TlsOptions other = All().Options();
  other.name = "another";
  Ends bad(other, All().Options());
  bad.Greet();
  EXPECT_EQ(bad.client_end.code(), Code::kRefused);
  EXPECT_THAT(bad.client_end.ToString(), HasSubstr("ostname mismatch"));
}

TEST(TlsSession, OtherBytesThanTlsAreCorrupt) {
  for (const std::string& text :
       {std::string("GET / HTTP/1.0\r\n\r\n"), std::string(100, '\0'), std::string(100, '\xff')}) {
    Ends ends;
    ends.server->Feed(ConstBytes(text));
    Status status = ends.server->Handshake();
    EXPECT_EQ(status.code(), Code::kCorrupt) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("FUSEWIRE_TLS"));
  }
}

TEST(TlsSession, AnyBytesEndInWords) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    Ends ends;
    if (i % 2 == 0) ends.Greet();
    std::string bytes(random() % 300 + 1, ' ');
    for (char& letter : bytes) letter = static_cast<char>(random());
    ends.server->Feed(ConstBytes(bytes));
    Status status;
    if (ends.server->is_ready()) {
      EXPECT_EQ(Ends::ReadAll(ends.server.get(), &status), "");
    } else {
      status = ends.server->Handshake();
      EXPECT_FALSE(ends.server->is_ready());
    }
    ends.server->KeepRest();
  }
}

#endif

TEST(Tls, SaysWhichLibraryItUses) {
  Result<std::string> version = TryTls({});
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  EXPECT_THAT(version.value(), testing::StartsWith("OpenSSL 3."));
}

}  // namespace
}  // namespace fusewire::transport
