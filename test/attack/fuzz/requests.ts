/**
 * Malformed requests, as bytes. The same seed makes the same requests everywhere. Each connection draws its own, so a test can
 * repeat one connection without those before it.
 */
import { type Random, seededRandom } from "../../fake-cluster/random.ts";
import { onceIn, pick, whole } from "./chance.ts";
import { binaryEvent, type Post, review, reviewPaths, structuredEvent } from "./posts.ts";

export interface Malformed {
  readonly description: string;
  /** The answer to HEAD has no body. */
  readonly method: string;
  readonly bytes: Buffer;
  /** True: the request is valid HTTP, and must be answered. Otherwise the server may answer it or close the connection. */
  readonly isWhole: boolean;
  /** True: it asks for another protocol, and HTTP ends with it. */
  readonly isUpgrade?: boolean;
}

/** What one connection sends, without waiting for answers, and how it ends. */
export interface Exchange {
  readonly endpoint: "plain" | "tls";
  readonly requests: readonly Malformed[];
  /** Size of the pieces in which bytes are sent. */
  readonly pieceBytes: number;
  /** What the client does after sending everything: it waits for answers, closes its half, or disconnects. */
  readonly ending: "waits" | "half-closes" | "aborts";
}

const mostOnAConnection = 6;

/** The exchange of the connection with this number. */
export function exchangeOf(seed: number, number: number): Exchange {
  // Neighbouring seeds of mulberry32 begin with similar numbers.
  const random = seededRandom(Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b));
  random();
  const requests: Malformed[] = [];
  for (let count = whole(random, 1, mostOnAConnection); count > 0; count--) {
    const request = malformed(random);
    requests.push(request);
    // A server cannot know where another request would begin, or in which protocol.
    if (!request.isWhole || request.isUpgrade) break;
  }
  return {
    endpoint: onceIn(random, 4) ? "tls" : "plain",
    requests,
    pieceBytes: onceIn(random, 5) ? whole(random, 1, 2_000) + 200 : Number.POSITIVE_INFINITY,
    ending: pick(random, ["waits", "waits", "waits", "waits", "half-closes", "aborts"] as const),
  };
}

function malformed(random: Random): Malformed {
  switch (whole(random, 0, 9)) {
    case 0:
    case 1:
      return framed(random, binaryEvent(random));
    case 2:
    case 3:
      return framed(random, structuredEvent(random));
    case 4:
    case 5:
    case 6:
      return framed(random, review(random));
    case 7:
      return oddTarget(random);
    case 8:
      return oddHead(random);
    default:
      return misframed(random, pick(random, [binaryEvent, structuredEvent, review])(random));
  }
}

/** The request as HTTP frames it: with its length, or in chunks. */
function framed(random: Random, post: Post): Malformed {
  const { description, method, body } = post;
  if (!onceIn(random, 5)) return { description, method, bytes: bytesOf(post, [lengthOf(body)], body), isWhole: true };
  const chunks: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const chunk = body.subarray(at, at + whole(random, 1, 4_000));
    at += chunk.length;
    chunks.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n"));
  }
  const bytes = bytesOf(post, [["transfer-encoding", "chunked"]], Buffer.concat([...chunks, Buffer.from("0\r\n\r\n")]));
  return { description: `${description}, in chunks`, method, bytes, isWhole: true };
}

const methods = ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "M-SEARCH", "PURGE", "QUERY"];
const targets = [
  "/",
  "/healthz",
  "/readyz",
  "/ready",
  "/metrics",
  "/metrics?%",
  "/%",
  "/%zz",
  "/%ff%fe",
  "/%00",
  "//",
  "//evil.example/",
  "/../../etc/passwd",
  "/pods/eviction/../../metrics",
  "/admission/",
  "/admission/%70od-eviction",
  "/\\",
  "/?",
  "/;a=b",
  "/{x}",
  "/|",
  "*",
  "http://evil.example/metrics",
  "http://[::1/",
  "ftp://x/",
  `/${"a".repeat(8_000)}`,
  `/?${"a=b&".repeat(2_000)}`,
];

/** A method or a target that the server does not have. The body is empty, or one for a method that takes none. */
function oddTarget(random: Random): Malformed {
  const method = onceIn(random, 4) ? "POST" : pick(random, methods);
  const target = onceIn(random, 3) ? pick(random, reviewPaths) : pick(random, targets);
  const body = onceIn(random, 3) ? Buffer.from("{}") : Buffer.alloc(0);
  const post = { description: `${method} ${target.slice(0, 40)}`, method, target, headers: [], body };
  return { description: post.description, method, bytes: bytesOf(post, [lengthOf(body)], body), isWhole: true };
}

/** `isWhole`: whether the request is still valid HTTP. */
const oddHeaders: readonly (readonly [description: string, lines: string, isWhole: boolean])[] = [
  ["hundreds of headers", Array.from({ length: 300 }, (_, index) => `x-${index}: 1\r\n`).join(""), true],
  ["an expectation that does not exist", "expect: the-unexpected\r\n", true],
  ["an upgrade to WebSocket", "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n", true],
  ["an upgrade to HTTP/2", "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: x\r\n", true],
  ["a trace that is none", "traceparent: 00-zz-zz-zz\r\ntracestate: =,=;\r\n", true],
  ["a name of a host that is none", "host: [::1\r\n", false],
  ["two hosts", "host: b\r\n", false],
  ["a header of 100 KB", `x: ${"a".repeat(100_000)}\r\n`, false],
  ["a header with a NUL", "x: a\0b\r\n", false],
  ["a header of no name", ": a\r\n", false],
  ["a header of no colon", "abc\r\n", false],
  ["a folded header", "x: a\r\n b\r\n", false],
  ["a header that ends with CR", "x: a\rb: c\r\n", false],
  ["a length that is negative", "content-length: -1\r\n", false],
  ["a length beyond all bounds", "content-length: 99999999999999999999\r\n", false],
  ["two lengths", "content-length: 1\r\ncontent-length: 2\r\n", false],
  ["a length and chunks", "content-length: 3\r\ntransfer-encoding: chunked\r\n", false],
  ["an encoding that the server does not know", "transfer-encoding: gzip\r\n", false],
  ["chunks twice", "transfer-encoding: chunked, chunked\r\n", false],
];
const oddLines = [
  "GET / HTTP/9.9",
  "GET / HTTP/1.0",
  "GET /",
  "get / HTTP/1.1",
  "P@ST / HTTP/1.1",
  "CONNECT evil.example:443 HTTP/1.1",
  "GET evil.example:443 HTTP/1.1",
  "GET  /  HTTP/1.1",
  "GET /a b HTTP/1.1",
  "GET /\x7f HTTP/1.1",
  "GET /\u00ff HTTP/1.1",
  "PRI * HTTP/2.0",
  `GET /${"a".repeat(40_000)} HTTP/1.1`,
  "",
  "\x16\x03\x01\x02\x00\x01\x00",
];

/** A malformed first line or header. */
function oddHead(random: Random): Malformed {
  if (onceIn(random, 3)) {
    const line = pick(random, oddLines);
    const bytes = Buffer.from(`${line}\r\nhost: a\r\n\r\n`, "latin1");
    return { description: `the line ${JSON.stringify(line.slice(0, 40))}`, method: "GET", bytes, isWhole: false };
  }
  const [description, lines, isWhole] = pick(random, oddHeaders);
  const host = isWhole || onceIn(random, 2) ? "host: a\r\n" : "";
  const bytes = Buffer.from(
    `GET ${pick(random, ["/healthz", "/metrics", "/"])} HTTP/1.1\r\n${host}${lines}\r\n`,
    "latin1",
  );
  return { description, method: "GET", bytes, isWhole, isUpgrade: lines.includes("upgrade: ") };
}

/** Bodies that are longer or shorter than they say, malformed chunks, and corrupted bytes. */
function misframed(random: Random, post: Post): Malformed {
  const { body, method, description } = post;
  const broken = (how: string, bytes: Buffer): Malformed => ({
    description: `${description}, ${how}`,
    method,
    bytes,
    isWhole: false,
  });
  const chunks = (text: string) => bytesOf(post, [["transfer-encoding", "chunked"]], Buffer.from(text, "latin1"));
  switch (whole(random, 0, 4)) {
    case 0:
      return broken(
        "longer than sent",
        bytesOf(post, [["content-length", String(body.length + whole(random, 1, 500_000))]], body),
      );
    case 1:
      return broken(
        "shorter than sent",
        bytesOf(post, [["content-length", String(Math.floor(body.length / 2))]], body),
      );
    case 2:
      return broken(
        "in chunks that are none",
        chunks(pick(random, ["zz\r\n", "-1\r\nx\r\n", "ffffffffffffffffff\r\n", "3\r\nabcd\r\n"])),
      );
    case 3:
      return broken("in chunks with long extensions", chunks(`1;${"x".repeat(20_000)}\r\na\r\n0\r\n\r\n`));
    default: {
      const bytes = bytesOf(post, [lengthOf(body)], body);
      for (let times = whole(random, 1, 8); times > 0; times--) {
        bytes[whole(random, 0, bytes.length - 1)] = whole(random, 0, 255);
      }
      return broken("with bytes turned over", bytes);
    }
  }
}

function lengthOf(body: Buffer): readonly [string, string] {
  return ["content-length", String(body.length)];
}

function bytesOf({ method, target, headers }: Post, framing: Post["headers"], body: Buffer): Buffer {
  const lines = [["host", "sluice.example"] as const, ...headers, ...framing].map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  return Buffer.concat([Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n`, "latin1"), body]);
}
