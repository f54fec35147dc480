// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/network.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "fusewire/base/log.h"
#include "fusewire/transport/socket_address.h"
#include "fusewire/transport/transport.h"

namespace fusewire::tf {
namespace {

// "FUSEWIRE_BIND is "eth9": ..."
Status Wrong(const char* variable, const std::string& value, const std::string& why, const std::string& next) {
  return Status::Invalid(std::string(variable) + " is \"" + value + "\": " + why).Next(next);
}

std::string HostOf(const std::string& address) {
  Result<transport::Address> parsed = transport::Address::Parse(address);
  return parsed.ok() ? parsed.value().host : address;
}

bool ReadPort(const std::string& word, uint16_t* port) {
  if (word.empty() || word.size() > 5 || word.find_first_not_of("0123456789") != std::string::npos) return false;
  const int number = std::stoi(word);
  *port = static_cast<uint16_t>(number);
  return number >= 1 && number <= 65535;
}

constexpr const char* kMapName = ".endpoint_map";
// Ten thousand tasks with names of a hundred bytes each.
constexpr size_t kBytesMax = 2 << 20;

// Why others could have written what is open here; empty: they couldn't.
std::string OthersCanWrite(const struct stat& about, const std::string& path) {
  if (about.st_uid != geteuid() && about.st_uid != 0) {
    return path + " belongs to user " + std::to_string(about.st_uid) + ", not to user " + std::to_string(geteuid()) +
           " or root: chown it, or remove it";
  }
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) return path + " can be written by others: chmod go-w " + path;
  return "";
}

// The file's text. False: there is none, or, if *refused is not empty, it is left out for this reason.
bool Read(const std::string& folder, std::string* text, std::string* refused) {
  const transport::Fd directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return false;
  // Only regular files: reading a pipe would wait for its writer, and a device may never end.
  const transport::Fd file(openat(directory.get(), kMapName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const std::string path = folder + "/" + kMapName;
  if (!file.valid()) {
    if (errno == ELOOP)
      *refused =
          path + " is a symbolic link: put the file itself there, or name its folder in TF_SEASTAR_ENDPOINT_MAP_PATH";
    return false;
  }
  struct stat about = {}, around = {};
  if (fstat(file.get(), &about) != 0 || fstat(directory.get(), &around) != 0) return false;
  if (!S_ISREG(about.st_mode) || about.st_size > static_cast<off_t>(kBytesMax)) {
    *refused = path + " is not a file, or has more than " + std::to_string(kBytesMax) + " bytes";
    return false;
  }
  *refused = OthersCanWrite(about, path);
  if (refused->empty()) *refused = OthersCanWrite(around, folder);
  if (!refused->empty()) return false;
  text->resize(kBytesMax);
  size_t size = 0;
  for (ssize_t got = 1; got > 0 && size < text->size(); size += static_cast<size_t>(got)) {
    got = read(file.get(), text->data() + size, text->size() - size);
    if (got < 0) return false;
  }
  text->resize(size);
  return true;
}

// The first malformed lines, for one line of the log, whatever they contain.
class BadLines {
 public:
  void Add(const std::string& line) {
    if (++count_ > kLinesMax) return;
    words_ += (words_.empty() ? "" : ", ") + line.substr(0, kLineBytesMax) + (line.size() > kLineBytesMax ? "..." : "");
  }
  std::string Words() const {
    std::string words = words_;
    for (char& letter : words) {
      if (static_cast<unsigned char>(letter) < ' ') letter = '?';
    }
    return count_ > kLinesMax ? words + ", and " + std::to_string(count_ - kLinesMax) + " more" : words;
  }

 private:
  static constexpr size_t kLinesMax = 5, kLineBytesMax = 80;
  size_t count_ = 0;
  std::string words_;
};

}  // namespace

bool ParsePorts(const std::string& text, pipe::PortRange* ports) {
  const size_t middle = text.find('-');
  pipe::PortRange read;
  if (!ReadPort(text.substr(0, middle), &read.min)) return false;
  if (middle == std::string::npos) {
    read.max = read.min;
  } else if (!ReadPort(text.substr(middle + 1), &read.max)) {
    return false;
  }
  if (read.min > read.max) return false;
  *ports = read;
  return true;
}

Status ParseAdvertise(const std::string& text, transport::Address* advertise) {
  const auto wrong = [&text](const std::string& why) {
    return Wrong("FUSEWIRE_ADVERTISE", text, why,
                 "set it to the host, or host:port, at which the other tasks reach this one");
  };
  // An IPv6 address without a port needs no brackets.
  const bool has_brackets = !text.empty() && text.front() == '[';
  const bool is_bare_ipv6 = !has_brackets && text.find(':') != text.rfind(':');
  const bool ends_in_bracket = has_brackets && text.back() == ']';
  const bool has_port = !is_bare_ipv6 && !ends_in_bracket && text.find(':') != std::string::npos;
  const std::string whole = has_port ? text : (is_bare_ipv6 ? "[" + text + "]" : text) + ":0";
  Result<transport::Address> parsed = transport::Address::Parse(whole);
  if (!parsed.ok()) return wrong("it is not an address");
  const transport::Address& address = parsed.value();
  if (address.host.empty()) return wrong("it names no host");
  if (has_port && address.port == 0) return wrong("port 0 is not a port");
  if (address.host == "*" || address.host == "0.0.0.0" || address.host == "::")
    return wrong("it does not name one machine");
  if (transport::SaysLinkLocal(address.host)) {
    return wrong("a link-local address means another machine on each link");
  }
  *advertise = address;
  return Status::Ok();
}

Result<NetworkSettings> ReadNetwork(const NetworkWords& words) {
  NetworkSettings settings;
  settings.bind = words.bind;
  if (!words.ports.empty() && !ParsePorts(words.ports, &settings.ports)) {
    return Wrong("FUSEWIRE_PORTS", words.ports, "it is not a range of ports",
                 "set it to a range, 40000-40100, or to one port, from 1 to 65535; or unset it for any free port");
  }
  if (!words.advertise.empty()) FUSEWIRE_TRY(ParseAdvertise(words.advertise, &settings.advertise));
  return settings;
}

Result<transport::ListeningPlace> WhereDataPortsAre(const std::string& bind, const std::string& own,
                                                    const std::map<std::string, std::string>& tasks) {
  if (!bind.empty()) {
    Result<std::string> said = transport::ListenAsSaid(bind);
    if (!said.ok()) return Wrong("FUSEWIRE_BIND", bind, said.status().cause(), said.status().next());
    return transport::ListeningPlace{said.value(), ""};
  }
  const std::string host = HostOf(own);
  if (transport::SaysLinkLocal(host)) {
    return Status::Invalid("the cluster has this task at " + host +
                           ", a link-local address, which means another machine on each link")
        .Next("put a global address of it into the cluster (TF_CONFIG)");
  }
  if (transport::SaysLoopback(host)) {
    for (const auto& [task, address] : tasks) {
      if (!transport::SaysLoopback(HostOf(address))) {
        return transport::ListeningPlace{"", "this task is at " + host + " to itself, but " + task + " is elsewhere"};
      }
    }
  }
  return transport::WhereToListen(host);
}

std::map<std::string, std::string> ParseEndpointMap(const std::string& text, std::string* bad) {
  std::map<std::string, std::string> endpoints;
  std::istringstream lines(text);
  std::string line;
  BadLines bad_lines;
  while (std::getline(lines, line)) {
    size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    size_t end = line.find_last_not_of(" \t\r") + 1;
    line = line.substr(begin, end - begin);
    size_t middle = line.find('=');
    bool ok = middle != std::string::npos && transport::Address::Parse(line.substr(0, middle)).ok() &&
              transport::Address::Parse(line.substr(middle + 1)).ok();
    if (ok) {
      endpoints[line.substr(0, middle)] = line.substr(middle + 1);
    } else {
      bad_lines.Add(line);
    }
  }
  *bad = bad_lines.Words();
  return endpoints;
}

std::map<std::string, std::string> ReadEndpointMap(const std::string& folder) {
  static std::atomic<bool> has_told{false};  // a process may have hundreds of servers
  std::error_code error;
  const std::string where = folder.empty() ? std::filesystem::current_path(error).string() : folder;
  std::string text, refused, bad;
  const bool has_read = Read(where, &text, &refused);
  if (!refused.empty())
    FUSEWIRE_LOG(kWarn, "%s is left out: %s; see: fusewire explain doctor#endpoint-map", kMapName, refused.c_str());
  if (!has_read) return {};
  std::map<std::string, std::string> endpoints = ParseEndpointMap(text, &bad);
  if (!bad.empty()) {
    FUSEWIRE_LOG(kWarn, "%s/%s: left out lines that are not host:port=host:port: %s; see: %s", where.c_str(), kMapName,
                 bad.c_str(), "fusewire explain doctor#endpoint-map");
  }
  if (!has_told.exchange(true)) {
    FUSEWIRE_LOG(kWarn, "%s/%s says where the data ports of %zu tasks are; see: fusewire explain doctor#endpoint-map",
                 where.c_str(), kMapName, endpoints.size());
  }
  return endpoints;
}

}  // namespace fusewire::tf
