import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { launch } from "../controlplane/processes.ts";
import { limitMemory, mebibyte, memoryOf } from "./limit.ts";

/** Allocates another mebibyte every few milliseconds once it is asked to. */
const greedy = `
  const kept = [];
  process.on("SIGUSR2", () => setInterval(() => kept.push(Buffer.alloc(2 ** 20, 1)), 2));
  setInterval(() => undefined, 1_000);
  console.log("ready");
`;

describe("the limit", () => {
  it("ends a process that wants more, and not before", async () => {
    const child = launch(process.execPath, ["-e", greedy], { output: "pipe" });
    try {
      await eventually("it is ready", 10_000, async () => child.printed().stdout.includes("ready") || undefined);
      const limit = await limitMemory({ pid: child.pid as number, bytes: 128 * mebibyte, cgroup: undefined });
      assert.match(limit.description, /^128 MiB by what is resident at most, and prlimit --data/);
      assert.equal(child.end(), undefined);
      child.signal("SIGUSR2");
      let most = 0;
      await eventually(
        "it has ended",
        30_000,
        async () => {
          if (child.end() !== undefined) return true;
          const { resident } = await memoryOf(child.pid as number).catch(() => ({ resident: 0 }));
          most = Math.max(most, resident);
          return undefined;
        },
        2,
      );
      assert.ok(most > 100 * mebibyte && most < 200 * mebibyte, `${most / mebibyte} MiB at most`);
      await limit.end();
    } finally {
      await child.stop(0);
    }
  });

  it("is written into a group of its own if a parent was given, in the format of the version of cgroups", async () => {
    for (const [version, file] of [
      [1, "memory.limit_in_bytes"],
      [2, "memory.max"],
    ] as const) {
      const parent = await mkdtemp(join(tmpdir(), "sluice-cgroup-"));
      if (version === 1) await writeFile(join(parent, file), "");
      const limit = await limitMemory({ pid: 7, bytes: 256 * mebibyte, cgroup: parent });
      const group = join(parent, (await readdir(parent)).find((name) => name.startsWith("sluice-attack-")) ?? "");
      assert.equal(await readFile(join(group, file), "utf8"), "268435456");
      assert.equal(await readFile(join(group, "cgroup.procs"), "utf8"), "7");
      assert.match(limit.description, /^256 MiB by a cgroup/);
      // The kernel removes its own files with the folder. These are ordinary files, so the test removes them.
      await Promise.all([file, "cgroup.procs"].map((name) => rm(join(group, name))));
      await limit.end();
      assert.equal(existsSync(group), false);
      await rm(parent, { recursive: true });
    }
  });

  it("is refused if the group cannot be made", async () => {
    await assert.rejects(limitMemory({ pid: 7, bytes: mebibyte, cgroup: "/nowhere" }), /nowhere/);
  });
});
