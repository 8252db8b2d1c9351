import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";

const script = join(import.meta.dirname, "main.ts");

interface Ending {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command line. `meddle` gets its process id. */
function runMain(args: readonly string[], meddle?: (pid: number) => Promise<void>): Promise<Ending> {
  return new Promise((resolve, reject) => {
    let code: number | null = null;
    const child = execFile(process.execPath, [script, ...args], { timeout: 160_000 }, (_, stdout, stderr) =>
      resolve({ code, stdout, stderr }),
    );
    child.once("exit", (given) => {
      code = given;
    });
    meddle?.(child.pid as number).catch(reject);
  });
}

/** Process id of the attacked server, which is the child of the attacking process. */
function serverOf(pid: number): number | undefined {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .find((other) => {
      try {
        const stat = readFileSync(`/proc/${other}/stat`, "utf8");
        const [, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        return Number(parent) === pid && readFileSync(`/proc/${other}/cmdline`, "utf8").includes("triggers/main.ts");
      } catch {
        return false;
      }
    });
}

describe("the attack", () => {
  // The other attacks take two minutes and measure: `npm run attack`, which `.ci/run` runs, has them.
  test("the server holds off malformed requests within 256 MiB, and answers honest requests meanwhile", async () => {
    const { code, stdout, stderr } = await runMain(["--only", "malformed"]);
    assert.equal(stderr, "");
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^limit: 256 MiB by /);
    assert.match(stdout, /1 of 1 attacks were held off/);
  });

  test("the server ends at a limit that it cannot keep, and the attack reports that in its table and exits 1", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-attack-table-"));
    const out = join(folder, "table.md");
    const { code, stdout } = await runMain(["--only", "malformed", "--limit", "128", "--out", out]);
    assert.equal(code, 1, stdout);
    assert.match(stdout, /^FAILED malformed/m);
    assert.match(await readFile(out, "utf8"), /^\| .* malformed requests \|.*\| \*\*failed\*\*: /m);
    await rm(folder, { recursive: true });
  });

  test("Ctrl-C ends the attack with 130, and the server with it", async () => {
    let server: number | undefined;
    const { code, stderr } = await runMain(["--only", "idle-sockets"], async (pid) => {
      server = await eventually("a server", 30_000, async () => serverOf(pid));
      process.kill(pid, "SIGINT");
    });
    assert.equal(code, 130, stderr);
    assert.match(stderr, /SIGINT: ending/);
    assert.throws(() => process.kill(server as number, 0), /ESRCH/);
  });

  test("a wrong flag ends the attack with 2 and a line for each mistake, and --help prints its usage", async () => {
    const wrong = await runMain(["--only", "drain", "--limit", "1"]);
    assert.deepEqual([wrong.code, wrong.stdout, wrong.stderr.trim().split("\n").length], [2, "", 2]);
    const { code, stdout } = await runMain(["--help"]);
    assert.equal(code, 0);
    assert.match(stdout, /npm run attack/);
  });
});
