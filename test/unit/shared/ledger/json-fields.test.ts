/**
 * The JSON fields in annotations keep their names, whatever the code calls them, because users and other versions
 * read them.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { formatStatus, skipStatus } from "../../../../functions/shared/annotations/skip-labels.ts";
import { read } from "../../../../functions/shared/annotations/table.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import { parseLedger } from "../../../../functions/shared/ledger/contents.ts";
import { writeLedger } from "../../../../functions/shared/ledger/lease.ts";
import { leaseObject, namespace, nowMs } from "../../functions/advance-zone-rollout/given.ts";

test("sluice.dev/skip-status has the fields guard, sentence, label and since", () => {
  const status = { guard: "stopping", message: "all may stop", label: "skipPreStopChecks", sinceMs: 0 };
  const text = formatStatus(status);
  const since = "1970-01-01T00:00:00.000Z";
  assert.equal(
    text,
    JSON.stringify({ guard: "stopping", sentence: "all may stop", label: "skipPreStopChecks", since }),
  );
  assert.deepEqual(
    read(skipStatus, { name: "a", uid: "u", resourceVersion: "1", annotations: { [skipStatus.key]: text } }),
    status,
  );
});

test("verdicts, refusals and claims of a ledger have the fields of earlier versions", async () => {
  const bodies: { metadata: { annotations: Record<string, string> } }[] = [];
  const lease = leaseObject("sluice-group", { "sluice.dev/group": "group" });
  const patch = async (_resource: string, _key: object, body: (typeof bodies)[0]) => {
    bodies.push(body);
    return lease;
  };
  const cluster = { serverTimeMs: () => nowMs, patch } as unknown as Cluster;
  const claim = makeClaim({
    ...{
      id: "c",
      kind: "scale-down",
      zone: "a",
      members: [{ first: 1, last: 2 }],
      by: "prepare-downscale",
      stampMs: 5,
    },
    ...{
      phase: "prepared",
      terms: "asked",
      toldAt: { scheme: "http", port: 80, path: "/p", service: "s" },
      undoneMs: 6,
    },
  });
  await writeLedger(cluster, parseLedger({ namespace, group: "group" }, lease), {
    ...{ reservations: [], claims: [claim], seenThrough: 0, membersThrough: 0 },
    refusals: [{ uid: "u", pod: "a-1", message: "no", stampMs: 7, by: "f" }],
    verdicts: { f: { guard: "budget", zone: "a", sentence: "a: 1 of 3 down", since: 1, at: 2 } },
  });
  const written = bodies[0]?.metadata.annotations ?? {};
  assert.equal(
    written["sluice.dev/verdicts"],
    '{"f":{"guard":"budget","zone":"a","sentence":"a: 1 of 3 down","since":1,"at":2}}',
  );
  assert.equal(written["sluice.dev/refusals"], '{"u/f":["a-1","no",7,"f"]}');
  assert.deepEqual(Object.keys(JSON.parse(written["sluice.dev/claims"] ?? "")).sort(), [
    ...["by", "id", "kind", "members", "phase", "stampMs", "terms", "toldAt", "undoneMs", "zone"],
  ]);
});
