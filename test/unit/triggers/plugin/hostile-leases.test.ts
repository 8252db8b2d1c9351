/** Leases with the label of a ledger and arbitrary text by another account: every command still reports the other groups. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import { Harness } from "../../shared/reconcile/harness.ts";
import { addLease, addLedger } from "./leases.ts";
import { sluice } from "./terminal.ts";

const long = "x".repeat(200_000);

/** A group with a ledger of its own, and a group that has nothing but a ledger. */
async function twoGroups(): Promise<Harness> {
  const harness = await new Harness().prepare();
  addLedger(harness, "other");
  return harness;
}

test("a Lease with a ledger's label but not its name is left out with one warning, and why reports all groups", async () => {
  const harness = await twoGroups();
  addLease(harness, "foreign", { "sluice.dev/group": "group" });
  const { code, out, err } = await sluice(harness, "why");
  assert.equal(code, 0);
  assert.match(out, /^group +2 +4\/4 /m);
  assert.match(out, /^other +0 +0\/0 /m);
  assert.deepEqual(err, [
    "Lease foreign has the label app.kubernetes.io/managed-by=sluice, is no ledger, and is left out",
  ]);
  const { groups } = JSON.parse((await sluice(harness, "why -o json")).out);
  assert.deepEqual(
    groups.map(({ group }: { group: string }) => group),
    ["group", "other"],
  );
});

test("one line reports all such Leases: their number, and the name of the first", async () => {
  const harness = await twoGroups();
  for (let index = 0; index < 300; index++) addLease(harness, `foreign-${index}`, { "sluice.dev/group": `g${index}` });
  addLease(harness, "a-without-group", {});
  addLease(harness, "sluice-long", { "sluice.dev/group": long });
  addLease(harness, ledgerName(long), { "sluice.dev/group": long });
  const { code, out, err } = await sluice(harness, "why");
  assert.equal(code, 0);
  assert.deepEqual(
    out.split("\n").map((line) => line.split(" ")[0]),
    ["GROUP", "group", "other", ""],
  );
  assert.deepEqual(err, [
    "303 Leases have the label app.kubernetes.io/managed-by=sluice, are no ledgers, and are left out; the first is a-without-group",
  ]);
});

/** Texts that an account may have written into a ledger with a correct name. */
const contents: readonly Readonly<Record<string, string>>[] = [
  { "sluice.dev/reservations": "no JSON" },
  { "sluice.dev/reservations": "[]", "sluice.dev/claims": "{" },
  { "sluice.dev/claims": long },
  { "sluice.dev/settled-through": "\u001b[2J" },
  ...["verdicts", "refusals", "members", "looks", "last-downscales"].map((name) => ({ [`sluice.dev/${name}`]: long })),
  { "sluice.dev/reservations": JSON.stringify({ "no-set": { 0: ["uid", "no-function", 8.64e15] } }) },
  { "sluice.dev/refusals": JSON.stringify({ uid: ["no-pod-0", "no", 8.64e15] }) },
  {
    "sluice.dev/verdicts": JSON.stringify({ other: { guard: "g", zone: "z", sentence: "s", since: 0, at: 8.64e15 } }),
  },
  { "sluice.dev/format": long },
];
const names = [
  "a b",
  "a\nb",
  "\u001b[31mred",
  "owner:Kind.example.com/a\u0007b",
  "owner:/",
  "budget:",
  "statefulset:../x",
  "",
];

test("the other groups are reported, whatever a ledger contains and whatever its group is called", async () => {
  for (const [index, annotations] of contents.entries()) {
    const harness = await twoGroups();
    addLedger(harness, "hostile", annotations);
    const { code, out, err } = await sluice(harness, "why");
    assert.deepEqual([code, err], [0, []], `contents ${index}`);
    assert.match(out, /^group +2 +4\/4 /m);
    assert.match(out, /^other +0 +0\/0 /m);
    assert.ok(out.length < 20_000, "no text of a Lease floods the terminal");
    assert.match((await sluice(harness, "why group")).out, /^group in namespace db: 4 of 4 pods ready/);
    assert.equal((await sluice(harness, "suspended")).code, 0);
  }
  for (const name of names) {
    const harness = await twoGroups();
    addLedger(harness, name);
    const { code, out, err } = await sluice(harness, "why");
    assert.deepEqual([code, err], [0, []], JSON.stringify(name));
    assert.match(out, /^other +0 +0\/0 /m);
  }
});

test("the command fails if it can read nothing but a ledger that is unreadable", async () => {
  const harness = await twoGroups();
  addLedger(harness, "hostile", { "sluice.dev/reservations": "no JSON" });
  addLease(harness, "sluice-stolen", { "sluice.dev/group": "another" });
  for (const line of [
    "why hostile",
    "why stolen",
    "why hostile -o json",
    "release hostile no-0",
    "release stolen no-0",
  ]) {
    const { code, err } = await sluice(harness, line);
    assert.equal(code, 1, line);
    assert.match(err.join("\n"), /^Lease sluice-(hostile|stolen) cannot be read as a ledger: [^\n]+$/, line);
  }
});

test("the message about a missing group names ten existing groups at most", async () => {
  const harness = await twoGroups();
  for (let index = 0; index < 50; index++) addLedger(harness, `g-${index}`);
  const { code, err } = await sluice(harness, "why nothing");
  assert.equal(code, 1);
  assert.match(err.join("\n"), /there are "g-0", ("g-\d+", ){9}…$/);
});
