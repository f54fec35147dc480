// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/request.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "fusewire/base/parse.h"

namespace fusewire::observe {
namespace {

constexpr std::string_view kLineEnd = "\r\n", kHeadEnd = "\r\n\r\n";

bool IsVisible(char letter) { return letter > ' ' && letter < 0x7f; }

bool IsTokenLetter(char letter) {
  return IsVisible(letter) && std::string_view("\"(),/:;<=>?@[\\]{}").find(letter) == std::string_view::npos;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lower;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

const char* ReasonOf(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 414: return "URI Too Long";
    case 421: return "Misdirected Request";
    case 431: return "Request Header Fields Too Large";
    case 505: return "HTTP Version Not Supported";
    default: return "Internal Server Error";
  }
}

// method SP target SP version
Refusal ReadFirstLine(std::string_view line, Request* request, bool* needs_host) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return {400, "the first line is not a method, a target and a version"};
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (version.substr(0, 5) != "HTTP/") return {400, "the first line names no version of HTTP"};
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return {505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  if (method != "GET" && method != "HEAD") return {405, "only GET and HEAD are answered here"};
  if (target.size() > kTargetBytesMax) return {414, "the target has more than 1024 bytes"};
  if (target.empty() || target.front() != '/' || !std::all_of(target.begin(), target.end(), IsVisible))
    return {400, "the target does not begin with /, or has a byte that is not visible ASCII"};
  request->is_head = method == "HEAD";
  *needs_host = version == "HTTP/1.1";
  request->target = std::string(target);
  const size_t question = target.find('?');
  request->path = std::string(target.substr(0, question));
  if (question != std::string_view::npos) request->query = std::string(target.substr(question + 1));
  return {};
}

Refusal ReadHeader(std::string_view line, Request* request, bool* has_host) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 ||
      !std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon), IsTokenLetter))
    return {400, "a header line has no name before a colon"};
  const std::string name = Lower(line.substr(0, colon));
  const std::string_view value = Trim(line.substr(colon + 1));
  const auto is_text = [](unsigned char letter) { return letter == '\t' || (letter >= ' ' && letter != 0x7f); };
  if (!std::all_of(value.begin(), value.end(), is_text)) return {400, "header " + name + " has a control character"};
  if (name == "host") {
    if (*has_host) return {400, "two Host headers"};
    *has_host = true;
    request->host = std::string(value);
  } else if (name == "authorization") {
    request->authorization = std::string(value);
  } else if (name == "transfer-encoding" || (name == "content-length" && value != "0")) {
    return {400, "a request with a body is not answered here"};
  }
  return {};
}

}  // namespace

bool IsComplete(std::string_view bytes) {
  return bytes.size() > kRequestBytesMax || bytes.find(kHeadEnd) != std::string_view::npos;
}

Refusal ReadRequest(std::string_view bytes, Request* request) {
  *request = Request();
  const size_t end = bytes.substr(0, kRequestBytesMax).find(kHeadEnd);
  if (end == std::string_view::npos) {
    if (bytes.size() > kRequestBytesMax) return {431, "the request's head has more than 8192 bytes"};
    return {400, "the request's head is cut off"};
  }
  std::string_view rest = bytes.substr(0, end + kLineEnd.size());
  bool is_first = true, needs_host = false, has_host = false;
  for (size_t lines = 0; !rest.empty(); ++lines) {
    if (lines > kHeadersMax) return {431, "more than 64 headers"};
    const size_t line_end = rest.find(kLineEnd);
    const std::string_view line = rest.substr(0, line_end);
    rest.remove_prefix(line_end + kLineEnd.size());
    Refusal refusal = is_first ? ReadFirstLine(line, request, &needs_host) : ReadHeader(line, request, &has_host);
    if (refusal.status != 0) return refusal;
    is_first = false;
  }
  if (needs_host && !has_host) return {400, "no Host header"};
  return {};
}

std::string_view ParameterOf(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view parameter = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (parameter.size() > name.size() && parameter.substr(0, name.size()) == name && parameter[name.size()] == '=')
      return parameter.substr(name.size() + 1);
  }
  return {};
}

bool IsAddressOrLocalhost(std::string_view host) {
  if (!host.empty() && host.front() == '[') return host.find(']') != std::string_view::npos;
  host = host.substr(0, host.find(':'));
  if (Lower(host) == "localhost") return true;
  const auto is_of_address = [](char letter) { return (letter >= '0' && letter <= '9') || letter == '.'; };
  return !host.empty() && std::all_of(host.begin(), host.end(), is_of_address);
}

std::string WriteAnswer(const Answer& answer, bool is_head) {
  std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " " + ReasonOf(answer.status) + "\r\n";
  text += "Content-Type: " + answer.type + "\r\n";
  text += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
  text += "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
  // The page is whole: it asks this port alone, and may not be put into another page.
  text += "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; ";
  text += "img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n";
  if (answer.status == 401) text += "WWW-Authenticate: Fusewire\r\n";
  if (answer.status == 405) text += "Allow: GET, HEAD\r\n";
  text += "\r\n";
  if (!is_head) text += answer.body;
  return text;
}

bool SocketName::Set(const std::string& host, uint16_t port) {
  auto* four = reinterpret_cast<sockaddr_in*>(&storage);
  auto* six = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, host.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    size = sizeof(*four);
    return true;
  }
  if (inet_pton(AF_INET6, host.c_str(), &six->sin6_addr) != 1) return false;
  six->sin6_family = AF_INET6;
  six->sin6_port = htons(port);
  size = sizeof(*six);
  return true;
}

uint16_t SocketName::port() const {
  return ntohs(storage.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(&storage)->sin_port
                                            : reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
}

bool SocketName::is_loopback() const {
  if (storage.ss_family != AF_INET) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
  }
  return ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

std::string SocketName::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  const std::string end = ":" + std::to_string(port());
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text, sizeof(text));
    return text + end;
  }
  const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&six)) {
    inet_ntop(AF_INET, &six.s6_addr[12], text, sizeof(text));
    return text + end;
  }
  inet_ntop(AF_INET6, &six, text, sizeof(text));
  return "[" + std::string(text) + "]" + end;
}

std::string PlaceOf(std::string_view host) {
  const size_t colon = host.rfind(':');
  if (colon == std::string_view::npos || colon < host.rfind(']') + 1) return {};
  uint16_t port = 0;
  if (!ParseNumber(host.substr(colon + 1), &port)) return {};
  std::string name(host.substr(0, colon));
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
    name = name.substr(1, name.size() - 2);
    name = name.substr(0, name.find('%'));  // the zone is the asker's own name for an interface
  }
  SocketName address;
  if (address.Set(name, port)) return address.ToString();
  if (name.find_first_of("[]") != std::string::npos) return {};
  std::transform(name.begin(), name.end(), name.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return name + ":" + std::to_string(port);
}

}  // namespace fusewire::observe
