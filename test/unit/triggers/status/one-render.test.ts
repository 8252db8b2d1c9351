/** One render of a second serves all viewers of the status, from one compressed copy. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Status } from "../../../../functions/shared/contract/status.ts";
import { started } from "../../functions/show-status/started.ts";
import { appWith } from "./given.ts";

const viewers = 64;

/** The endpoints of a process that serves a group, in virtual time. */
async function servedStatus() {
  const { standalone, goTo } = await started();
  const counted = new Map<Status, Status>();
  let readsOfGroups = 0;
  /** The same status for as long as the process has the same one. It counts how often a render reads its groups. */
  const read = async (): Promise<Status | undefined> => {
    const status = await standalone.readStatus?.();
    if (status === undefined) return undefined;
    const known = counted.get(status) ?? {
      ...status,
      get groups() {
        readsOfGroups++;
        return status.groups;
      },
    };
    counted.set(status, known);
    return known;
  };
  const { get } = appWith({ read });
  const load = async (): Promise<Buffer> => {
    const answer = await get("/", { "accept-encoding": "gzip" });
    assert.deepEqual([answer.status, answer.headers.get("content-encoding")], [200, "gzip"]);
    return Buffer.from(await answer.arrayBuffer());
  };
  return { load, goTo, readsOfGroups: () => readsOfGroups };
}

test("64 viewers within a second cost one render, and those of the next second one more", async () => {
  const { load, goTo, readsOfGroups } = await servedStatus();
  const alone = load();
  await goTo(9.5);
  await alone;
  const perRender = readsOfGroups();
  assert.ok(perRender > 0);
  const pages: Buffer[] = [];
  for (const second of [10, 11]) {
    const loads: Promise<Buffer>[] = [];
    for (let viewer = 0; viewer < viewers; viewer++) {
      await goTo(second + (0.99 * viewer) / viewers);
      loads.push(load());
    }
    const [first = assert.fail(), ...others] = await Promise.all(loads);
    assert.ok(others.every((page) => page.equals(first)));
    pages.push(first);
    assert.equal(readsOfGroups(), (second - 8) * perRender);
  }
  assert.notDeepEqual(pages[0], pages[1]);
});

test("64 viewers that ask every two seconds cost a render a second, however long they go on", async () => {
  const { load, goTo, readsOfGroups } = await servedStatus();
  const loads = [load()];
  await goTo(9.5);
  await loads[0];
  const perRender = readsOfGroups();
  for (let at = 10; at < 20; at += 2 / viewers) {
    await goTo(at);
    loads.push(load());
  }
  await goTo(25);
  assert.equal((await Promise.all(loads)).length, 1 + 5 * viewers);
  const renders = readsOfGroups() / perRender - 1;
  assert.ok(renders >= 5 && renders <= 10, `${renders} renders in 10 s`);
});
