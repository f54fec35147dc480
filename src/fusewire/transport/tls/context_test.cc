// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tls/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "fusewire/transport/tls/certificates_test.h"

namespace fusewire::transport {
namespace {

#if FUSEWIRE_HAS_TLS

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(TlsContext, NamesTheFileThatIsWrong) {
  Certificates made;
  made.Make("another", "ca");
  std::ofstream(made.File("text")) << "no certificate";
  struct Wrong {
    const char* setting;
    std::string TlsOptions::*file;
    const char* name;
    const char* words;
  };
  const Wrong all[] = {
      {"FUSEWIRE_TLS_CERT", &TlsOptions::certificate, "none", "no certificate"},
      {"FUSEWIRE_TLS_CERT", &TlsOptions::certificate, "text", "no certificate"},
      {"FUSEWIRE_TLS_KEY", &TlsOptions::key, "text", "no key"},
      {"FUSEWIRE_TLS_KEY", &TlsOptions::key, "another.key", "key"},
      {"FUSEWIRE_TLS_CA", &TlsOptions::authorities, "none", "no certificates"},
  };
  for (const Wrong& wrong : all) {
    TlsOptions options = made.Options();
    options.*wrong.file = made.File(wrong.name);
    Result<TlsContextPtr> loaded = TlsContext::Load(options);
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.status().code(), Code::kInvalid);
    EXPECT_THAT(loaded.status().ToString(),
                AllOf(HasSubstr(wrong.setting), HasSubstr(wrong.words), HasSubstr("next: ")));
  }
}

TEST(TlsContext, DescribesItsCertificateUntilItExpires) {
  Certificates made;
  Result<std::string> described = TlsContext::Load(made.Options()).value()->DescribeCertificate();
  ASSERT_TRUE(described.ok()) << described.status().ToString();
  EXPECT_THAT(described.value(), AllOf(HasSubstr("CN=task"), HasSubstr("more days")));
  made.Make("old", "ca", "-1");
  described = TlsContext::Load(made.Options("old")).value()->DescribeCertificate();
  ASSERT_FALSE(described.ok());
  EXPECT_EQ(described.status().code(), Code::kRefused);
  EXPECT_THAT(described.status().ToString(), AllOf(HasSubstr("CN=old"), HasSubstr("expired 1 days ago")));
}

// Whether a client of these options greets a server of this context.
bool Greets(const TlsOptions& client_options, TlsContext& server_context) {
  std::unique_ptr<Session> client = TlsContext::Load(client_options).value()->NewSession(true).value();
  std::unique_ptr<Session> server = server_context.NewSession(false).value();
  for (int i = 0; i < 10; ++i) {
    for (auto [from, to] : {std::pair(client.get(), server.get()), std::pair(server.get(), client.get())}) {
      if (!from->is_ready() && !from->Handshake().ok()) return false;
      const std::string bytes(reinterpret_cast<const char*>(from->out().data), from->out().size);
      from->Sent(bytes.size());
      to->Feed(ConstBytes(bytes));
      to->KeepRest();
    }
  }
  return client->is_ready() && server->is_ready();
}

TEST(TlsContext, FilesThatChangeAreReadAgainAndBadOnesAreNot) {
  Certificates made;
  made.MakeAuthority("next");
  made.Make("later", "next");
  std::ofstream(made.File("both")) << std::ifstream(made.File("ca.crt")).rdbuf()
                                   << std::ifstream(made.File("next.crt")).rdbuf();
  fs::copy_file(made.File("ca.crt"), made.File("trusted"));
  TlsOptions options = made.Options();
  options.authorities = made.File("trusted");
  ManualClock clock;
  TlsContextPtr context = TlsContext::Load(options, &clock).value();
  TlsOptions later = made.Options("later");
  EXPECT_TRUE(Greets(made.Options(), *context));
  EXPECT_FALSE(Greets(later, *context));

  auto replace = [&](const std::string& with) {
    fs::copy_file(with, made.File("new"), fs::copy_options::overwrite_existing);
    fs::rename(made.File("new"), made.File("trusted"));
    clock.Advance(kSecondNs);  // it looks once a second
  };
  replace(made.File("both"));
  EXPECT_TRUE(Greets(later, *context));
  EXPECT_TRUE(Greets(made.Options(), *context));
  replace(made.File("log"));  // no certificate
  EXPECT_TRUE(Greets(later, *context));
}

#endif

}  // namespace
}  // namespace fusewire::transport
