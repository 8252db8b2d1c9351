/** Which connection is closed for a new one: only the choice, without a socket. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { addressOf, type ConnectionStanding, chooseToGo, type Placed } from "../../../../triggers/server/crowd.ts";

interface Named extends Omit<Placed, "crowd"> {
  readonly name: string;
  readonly address: string;
}

const most = 1_000;

/** Connections of an address, the oldest first. */
function many(count: number, address: string, standing: ConnectionStanding, more: Partial<Placed> = {}): Named[] {
  const usual = { isAnswered: standing === "idle" || standing === "moving", isProved: false };
  return Array.from({ length: count }, (_, index) => ({
    ...{ name: `${address} ${standing} ${index}`, address, standing, sinceMs: index },
    ...usual,
    ...more,
  }));
}

function newcomerOf(address: string): Named {
  return { name: "newcomer", address, standing: "fresh", sinceMs: 10_000, isAnswered: false, isProved: false };
}

/** Name of the connection that is closed when a new one comes from that address. */
function goes(all: readonly Named[], address: string): string {
  const crowds = new Map<string, { unproven: number }>();
  const placed = [...all, newcomerOf(address)].map((one) => {
    const crowd = crowds.get(one.address) ?? { unproven: 0 };
    crowds.set(one.address, crowd);
    if (!one.isProved) crowd.unproven++;
    return { ...one, crowd };
  });
  const newcomer = placed.at(-1);
  return (newcomer && chooseToGo(placed, newcomer, most)?.name) ?? "newcomer";
}

describe("which connection is closed for a new one", () => {
  test("the oldest connection of the address with the most connections is closed, and not a new one of another address", () => {
    for (const standing of ["stalled", "fresh", "idle", "moving", "working"] as const) {
      const all = [...many(100, "api", "idle"), ...many(900, "crowd", standing)];
      assert.equal(goes(all, "probe"), `crowd ${standing} 0`);
      assert.equal(goes(all, "api"), `crowd ${standing} 0`);
    }
  });

  test("a new connection of the address with the most connections closes no connection of another address", () => {
    const all = [...many(500, "api", "fresh"), ...many(300, "crowd", "fresh"), ...many(200, "crowd", "working")];
    assert.equal(goes(all, "crowd"), "crowd fresh 0");
    assert.equal(goes([...many(400, "api", "idle"), ...many(600, "crowd", "working")], "crowd"), "newcomer");
  });

  test("within one address stalled connections are closed first, then those never answered, then idle ones, and never working ones", () => {
    const kinds = ["stalled", "fresh", "idle", "moving"] as const;
    for (const [at, kind] of kinds.entries()) {
      const all = [...many(900, "one", "working"), ...kinds.slice(at).flatMap((one) => many(10, "one", one))];
      assert.equal(goes(all, "one"), `one ${kind} 0`);
    }
    assert.equal(goes(many(1_000, "one", "working"), "one"), "newcomer");
  });

  test("between two addresses with equally many, a connection that was never answered is closed first", () => {
    const api = [...many(250, "api", "idle"), ...many(250, "api", "working", { isAnswered: true })];
    assert.equal(goes([...api, ...many(500, "crowd", "fresh", { sinceMs: 9_999 })], "probe"), "crowd fresh 0");
    const works = many(500, "crowd", "working", { sinceMs: 9_999 });
    assert.equal(goes([...many(500, "api", "working", { isAnswered: true }), ...works], "probe"), "crowd working 0");
  });

  test("hundreds of addresses with few connections each cut no request of an address with ten", () => {
    const crowd = Array.from({ length: 495 }, (_, at) => many(2, `crowd-${at}`, "fresh", { sinceMs: 9_000 })).flat();
    const api = [...many(5, "api", "working"), ...many(5, "api", "idle")];
    assert.match(goes([...api, ...crowd], "crowd-7"), /^crowd-/);
    assert.match(goes([...api, ...crowd], "api"), /^crowd-/);
    const working = Array.from({ length: 990 }, (_, at) => many(1, `crowd-${at}`, "working")).flat();
    assert.equal(goes([...many(10, "api", "working"), ...working], "crowd-7"), "newcomer");
  });

  test("a client that has proved its identity never counts as unproven", () => {
    const proved = many(999, "api", "idle", { isProved: true });
    assert.equal(goes([...proved, ...many(1, "crowd", "working")], "probe"), "newcomer");
    assert.equal(goes([...proved, ...many(1, "crowd", "moving")], "probe"), "crowd moving 0");
    assert.equal(goes(many(1_000, "api", "idle", { isProved: true }), "api"), "newcomer");
  });
});

test("an IPv4 address counts the same in both notations, and an IPv6 address by its first 64 bits", () => {
  for (const [address, counted] of [
    ["10.1.2.3", "10.1.2.3"],
    ["::ffff:10.1.2.3", "10.1.2.3"],
    ["::ffff:a01:203", "10.1.2.3"],
    ["2001:db8:0:7:1:2:3:4", "2001:db8:0:7"],
    ["2001:db8:0:7::9", "2001:db8:0:7"],
    ["2001:DB8::1", "2001:db8:0:0"],
    ["fe80::1%eth0", "fe80:0:0:0"],
    ["::1", "0:0:0:0"],
    [undefined, ""],
  ] as const) {
    assert.equal(addressOf(address), counted, address);
  }
});
