// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/request.h"

#include <string>

#include <gtest/gtest.h>

namespace fusewire::observe {
namespace {

int StatusOf(const std::string& bytes) {
  Request request;
  const Refusal refusal = ReadRequest(bytes, &request);
  EXPECT_EQ(refusal.status != 0, !refusal.reason.empty());
  return refusal.status;
}

TEST(Request, ReadsWhatBrowsersAndScrapersSend) {
  Request request;
  const std::string bytes =
      "GET /ring.json?after_ns=12&x= HTTP/1.1\r\nHost: 127.0.0.1:9\r\nAUTHORIZATION:  Fusewire 1:2:3 \r\n"
      "Accept: */*\r\nContent-Length: 0\r\n\r\n";
  ASSERT_TRUE(IsComplete(bytes));
  EXPECT_FALSE(IsComplete(bytes.substr(0, bytes.size() - 1)));
  const Refusal refusal = ReadRequest(bytes, &request);
  EXPECT_EQ(refusal.status, 0) << refusal.reason;
  EXPECT_EQ(request.path, "/ring.json");
  EXPECT_EQ(request.target, "/ring.json?after_ns=12&x=");
  EXPECT_EQ(request.host, "127.0.0.1:9");
  EXPECT_EQ(request.authorization, "Fusewire 1:2:3");
  EXPECT_FALSE(request.is_head);
  EXPECT_EQ(ParameterOf(request.query, "after_ns"), "12");
  EXPECT_EQ(ParameterOf(request.query, "x"), "");
  EXPECT_EQ(ParameterOf(request.query, "after"), "");
  EXPECT_EQ(ReadRequest("HEAD / HTTP/1.0\r\n\r\n", &request).status, 0);
  EXPECT_TRUE(request.is_head);
}

TEST(Request, RefusesTheRestWithAReason) {
  const std::string host = "Host: localhost\r\n";
  EXPECT_EQ(StatusOf(""), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n" + host), 400);  // cut off
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n\r\n"), 400);     // no host
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n" + host + host + "\r\n"), 400);
  EXPECT_EQ(StatusOf("GET  HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / \r\n" + host + "\r\n"), 400);
  EXPECT_EQ(StatusOf("GET http://a/ HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(StatusOf("GET /\x01 HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/2\r\n" + host + "\r\n"), 505);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\n" + host + "\r\n"), 405);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n" + host + " folded\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n" + host + "no colon\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n" + host + "a: b\x02\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET /" + std::string(kTargetBytesMax, 'a') + " HTTP/1.1\r\n" + host + "\r\n"), 414);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\na: " + std::string(kRequestBytesMax, 'b')), 431);
  std::string many = "GET / HTTP/1.1\r\n";
  for (size_t i = 0; i <= kHeadersMax; ++i) many += "a: b\r\n";
  EXPECT_EQ(StatusOf(many + "\r\n"), 431);
  EXPECT_EQ(StatusOf("SSH-2.0-client\r\n\r\n"), 400);
}

TEST(Request, AHostIsAnAddressOrLocalhost) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:80", "10.1.2.3:9477", "[::1]:80", "localhost", "LocalHost:5"})
    EXPECT_TRUE(IsAddressOrLocalhost(host)) << host;
  for (const char* host : {"", "evil.example.com", "evil.example.com:80", "localhost.example.com", "1.2.3.4a", "[::1"})
    EXPECT_FALSE(IsAddressOrLocalhost(host)) << host;
}

TEST(Request, AnAnswerHasItsLengthAndNoBodyForHead) {
  Answer answer;
  answer.body = "ok\n";
  const std::string whole = WriteAnswer(answer, false), head = WriteAnswer(answer, true);
  EXPECT_NE(whole.find("HTTP/1.1 200 OK\r\n"), std::string::npos);
  EXPECT_NE(whole.find("Content-Length: 3\r\n"), std::string::npos);
  EXPECT_EQ(whole, head + "ok\n");
  answer.status = 401;
  EXPECT_NE(WriteAnswer(answer, false).find("WWW-Authenticate: Fusewire\r\n"), std::string::npos);
}

TEST(SocketName, EqualPlacesAreEqualTexts) {
  SocketName name;
  ASSERT_TRUE(name.Set("10.0.0.7", 9477));
  EXPECT_EQ(name.ToString(), "10.0.0.7:9477");
  ASSERT_TRUE(name.Set("::ffff:10.0.0.7", 9477));
  EXPECT_EQ(name.ToString(), "10.0.0.7:9477");
  ASSERT_TRUE(name.Set("FE80::0:1", 9));
  EXPECT_EQ(name.ToString(), "[fe80::1]:9");
  EXPECT_FALSE(name.Set("worker-0", 9));
  EXPECT_EQ(PlaceOf("10.0.0.7:09477"), "10.0.0.7:9477");
  EXPECT_EQ(PlaceOf("[::FFFF:10.0.0.7]:9477"), "10.0.0.7:9477");
  EXPECT_EQ(PlaceOf("[fe80:0::1%eth0]:9"), "[fe80::1]:9");
  EXPECT_EQ(PlaceOf("Worker-0.Train:9477"), "worker-0.train:9477");
}

TEST(SocketName, AHostWithoutAPortIsRefused) {
  for (const char* host : {"", "10.0.0.7", "10.0.0.7:", "[::1]", "[::1", "::1]", "a:b", "a:65536", "a:-1", "a:1 "})
    EXPECT_EQ(PlaceOf(host), "") << host;
}

}  // namespace
}  // namespace fusewire::observe
