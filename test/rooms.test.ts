/** Holds the rooms of the product, which are its folders, to the table of what each may import. */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { test } from "node:test";
import { functions, none, product, read, waysOf } from "./support/tree.ts";

/**
 * The rooms of functions/shared, the lowest first, with the rooms that each imports. A new arrow is a decision: it changes this
 * table.
 */
const rooms: Readonly<Record<string, readonly string[]>> = {
  clock: [],
  base: ["clock"],
  transport: ["clock", "base"],
  kubernetes: ["clock", "base", "transport"],
  http: ["clock", "base", "transport"],
  annotations: ["clock", "base", "kubernetes"],
  fencing: ["base", "kubernetes", "annotations"],
  workloads: ["clock", "base", "kubernetes", "annotations"],
  certificates: ["base", "kubernetes"],
  ledger: ["clock", "base", "kubernetes", "annotations", "workloads"],
  groups: ["clock", "base", "kubernetes", "annotations", "workloads", "ledger"],
  volumes: ["clock", "base", "kubernetes", "annotations", "workloads", "ledger"],
  cache: ["clock", "base", "kubernetes", "annotations", "workloads", "groups", "volumes"],
  contract: ["base", "kubernetes", "http", "annotations", "workloads", "certificates", "ledger", "cache"],
  events: ["base", "kubernetes", "contract"],
  transaction: ["clock", "base", "kubernetes", "annotations", "workloads", "ledger", "groups", "cache", "contract"],
  reconcile: ["base", "kubernetes", "workloads", "ledger", "cache", "contract", "events", "transaction"],
  admission: ["base", "kubernetes", "workloads", "cache", "contract", "events"],
  health: ["base", "kubernetes", "http", "annotations", "workloads", "ledger", "groups", "contract", "transaction"],
  scaling: [
    ...["clock", "base", "kubernetes", "http", "annotations", "workloads", "ledger", "groups", "cache", "contract"],
    ...["transaction", "admission"],
  ],
  standby: ["base", "kubernetes", "contract"],
  suspension: [
    ...["clock", "base", "kubernetes", "http", "annotations", "workloads", "ledger", "groups", "volumes", "cache"],
    ...["contract", "events", "transaction", "health"],
  ],
};

/** What only one function uses, and why it stays in a room nevertheless. */
const exceptions: Readonly<Record<string, string>> = {
  "functions/shared/base/parse-yaml.ts": "it imports a package, and a function imports none",
  "functions/shared/certificates/issue.ts": "it imports a package, and a function imports none",
};

const roomOf = (path: string): string | undefined => /^functions\/shared\/([^/]+)\//.exec(path)?.[1];
const triggerOf = (path: string): string | undefined => /^triggers\/([^/]+)\//.exec(path)?.[1];

/** Each folder with the folders that its files import. */
function arrowsOf(folderOf: (path: string) => string | undefined): Map<string, Set<string>> {
  const arrows = new Map<string, Set<string>>();
  for (const source of product) {
    const from = folderOf(source.path);
    if (from === undefined) continue;
    const to = waysOf(source).flatMap((path) => folderOf(path) ?? []);
    arrows.set(from, new Set([...(arrows.get(from) ?? []), ...to.filter((folder) => folder !== from)]));
  }
  return arrows;
}

/** The circles of a graph: the nodes that remain after each node without an arrow to another has been removed. */
function inCircles(arrows: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const left = new Map(arrows);
  for (;;) {
    const free = [...left].find(([, to]) => ![...to].some((node) => left.has(node)));
    if (free === undefined) return [...left.keys()];
    left.delete(free[0]);
  }
}

test("each room of functions/shared imports the rooms that the table names, and no other", () => {
  const found = arrowsOf(roomOf);
  const sorted = (all: Iterable<readonly [string, Iterable<string>]>) =>
    Object.fromEntries([...all].map(([room, to]) => [room, [...to].sort()]));
  assert.deepEqual(sorted(found), sorted(Object.entries(rooms)));
});

test("no rooms import each other in a circle, neither in functions/shared nor in triggers", () => {
  assert.ok(arrowsOf(triggerOf).size >= 6);
  none(inCircles(arrowsOf(roomOf)), "what is low knows nothing of what is high");
  none(inCircles(arrowsOf(triggerOf)), "what is low knows nothing of what is high");
  const order = Object.keys(rooms);
  const up = Object.entries(rooms).flatMap(([room, to]) =>
    to.filter((other) => order.indexOf(other) >= order.indexOf(room)).map((other) => `${room} -> ${other}`),
  );
  none(up, "the table names the lowest room first");
});

test("the matcher of circles finds one of two and one of three, and none in a line", () => {
  const graph = (text: string) => new Map(text.split(" ").map((line) => [line[0] ?? "", new Set(line.slice(2))]));
  assert.deepEqual(inCircles(graph("a>bc b>c c>")), []);
  assert.deepEqual(inCircles(graph("a>b b>a c>a d>")), ["a", "b", "c"]);
  assert.deepEqual(inCircles(graph("a>b b>c c>a")), ["a", "b", "c"]);
});

test("a room has no folders in it, and its README says what it is about", () => {
  const deep = product.filter(({ path }) => /^functions\/shared\/[^/]+\/[^/]+\//.test(path)).map(({ path }) => path);
  none(deep, "what needs a folder of its own is a second room");
  const readmes = new Map(read("functions/shared/*/README.md").map(({ path, text }) => [roomOf(path), text]));
  none(
    Object.keys(rooms).filter((room) => !/^# .+\n\n[A-Z`]/.test(readmes.get(room) ?? "")),
    "a README begins with a heading and a sentence",
  );
});

test("no folder of the product holds one file alone", () => {
  const folders = Map.groupBy(product, ({ path }) => dirname(path));
  const lonely = [...folders].filter(([, files]) => files.length === 1).map(([folder]) => folder);
  none(lonely, "a folder of one file says nothing that its file does not say");
});

test("code that only one function uses stands in the folder of that function", () => {
  const homeOf = (path: string) => /^(?:functions\/)?(?!shared\/)[^/]+/.exec(path)?.[0] ?? "";
  const shared = functions.filter(({ path }) => roomOf(path) !== undefined).map(({ path }) => path);
  const users = new Map(shared.map((path) => [path, new Set<string>()]));
  for (const source of product) for (const to of waysOf(source)) users.get(to)?.add(source.path);
  const owners = new Map<string, string>();
  for (let isGrowing = true; isGrowing; ) {
    isGrowing = false;
    for (const [path, by] of users) {
      const homes = new Set([...by].map((user) => owners.get(user) ?? (roomOf(user) ? "shared" : homeOf(user))));
      const [home = "shared"] = homes;
      if (owners.has(path) || homes.size !== 1 || !home.startsWith("functions/")) continue;
      owners.set(path, home);
      isGrowing = true;
    }
  }
  assert.deepEqual([...owners.keys()].sort(), Object.keys(exceptions).sort(), [...owners].map(String).join("\n"));
  assert.ok(users.size > 100, "there is something to move");
});
