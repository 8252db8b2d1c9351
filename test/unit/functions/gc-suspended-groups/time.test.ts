/** The time of a suspended volume: only what Sluice has seen counts, whichever of the two functions looked (S1). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Volumes } from "../../shared/pass/volumes.ts";

const claim = "data-group-a-2";
const pod = "group-a-2";
const set = "group-a";
const hourMs = 3_600_000;

const words: Readonly<Record<string, readonly [(volumes: Volumes) => void, (volumes: Volumes) => void]>> = {
  "suspend-duration is taken away, and comes back": [
    (volumes) => volumes.policy(set, { "suspend-duration": null }),
    (volumes) => volumes.policy(set, { "suspend-duration": "1h" }),
  ],
  "suspend-duration is mistyped, and corrected": [
    (volumes) => volumes.policy(set, { "suspend-duration": "1hour" }),
    (volumes) => volumes.policy(set, { "suspend-duration": "1h" }),
  ],
  "the request is mistyped, and corrected": [
    (volumes) => volumes.say(claim, { suspend: "True" }),
    (volumes) => volumes.say(claim, { suspend: "true" }),
  ],
  "the state is mistyped, and corrected": [
    (volumes) => volumes.say(claim, { "suspend-state": "suspended" }),
    (volumes) => volumes.say(claim, { "suspend-state": "Suspended" }),
  ],
  "it is on hold, and let go": [
    (volumes) => volumes.say(claim, { hold: "true" }),
    (volumes) => volumes.say(claim, { hold: null }),
  ],
  "a wish to have it back is mistyped, and taken back": [
    (volumes) => volumes.say(claim, { recover: "yes" }),
    (volumes) => volumes.say(claim, { recover: null }),
  ],
};

for (const [what, [wrong, right]] of Object.entries(words)) {
  for (const who of ["both functions", "suspend-group alone", "gc-suspended-groups alone"] as const) {
    test(`${who}: ${what}, and the pod works meanwhile: the volume stays for its whole time after the pod has left again`, async () => {
      const volumes = new Volumes("1h");
      await volumes.suspended(claim);
      const look = async () => {
        if (who !== "gc-suspended-groups alone") await volumes.suspend();
        if (who !== "suspend-group alone") await volumes.collect();
      };
      wrong(volumes);
      await look();
      volumes.scale(set, 3);
      for (let n = 0; n < 2 * 12; n++) {
        await look();
        await volumes.goOn(300_000);
      }
      assert.ok(volumes.pod(pod), "the pod works");
      volumes.scale(set, 2);
      await volumes.goOn(60_000);
      assert.equal(volumes.pod(pod), undefined);
      const goneMs = volumes.timeline.nowMs();
      right(volumes);
      for (let n = 0; n < 11; n++) {
        await volumes.suspend();
        await volumes.collect();
        await volumes.goOn(300_000);
      }
      const afterMs = volumes.timeline.nowMs() - goneMs;
      assert.ok(volumes.isKept(claim), `deleted within ${afterMs / 60_000} minutes`);
    });
  }
}

test("gc-suspended-groups alone sees the pod back for a week: its volume is not removed when the pod goes", async () => {
  const volumes = new Volumes("1h");
  await volumes.suspended(claim);
  volumes.scale(set, 3);
  for (let n = 0; n < 7 * 24 * 12; n++) {
    await volumes.collect();
    await volumes.goOn(300_000);
  }
  assert.equal(volumes.said(claim, "suspended-at"), undefined, "its time is taken away");
  assert.equal(volumes.said(claim, "drained-at"), undefined, "and so is the word on data that has changed since");
  volumes.scale(set, 2);
  await volumes.goOn(20_000);
  for (let n = 0; n < 30; n++) {
    await volumes.collect();
    await volumes.goOn(300_000);
  }
  assert.ok(volumes.isKept(claim));
});

test("a mark of a removal that was never sent counts no longer than its pod is away: a pod that comes back has the time begin anew", async () => {
  const volumes = new Volumes("1h");
  await volumes.suspended(claim);
  await volumes.goOn(hourMs);
  await volumes.marked(claim);
  volumes.scale(set, 3);
  await volumes.goOn(60_000);
  await volumes.collect();
  assert.equal(volumes.said(claim, "suspend-state"), "Suspending");
  volumes.scale(set, 2);
  await volumes.goOn(60_000);
  for (let n = 0; n < 11; n++) {
    await volumes.suspend();
    await volumes.collect();
    await volumes.goOn(300_000);
  }
  assert.ok(volumes.isKept(claim));
});
