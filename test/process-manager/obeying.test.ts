/** How soon the runner obeys, by its own count of seconds, in each shell. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { packagesForTests } from "../support/packages.ts";
import { type PlayedPod, patienceMs, withPod } from "./pod.ts";
import { runnerShells } from "./shells.ts";

const packages = await packagesForTests();
const shells = packages === undefined ? [] : await runnerShells(packages);

/** Writes at which count of the runner it starts and stops. */
const counting = `
note() {
  until read -r count <"$SLUICE_FILES/beat" && [ -n "$count" ]; do :; done
  echo "$1 at $count" >>"$JOURNAL"
}
trap 'note stop; exit 0' TERM
note start
while :; do sleep 0.1; done
`;

/** The count at this line of the journal. */
async function countAt(pod: PlayedPod, line: number): Promise<number> {
  return Number((await pod.journal())[line]?.split(" at ")[1] || Number.NaN);
}

suite("the runner's second", { concurrency: 8, skip: packages === undefined }, () => {
  for (const shell of shells)
    test(`${shell.name}: a process is stopped, and started, before the second count after the command`, () =>
      withPod(
        shell,
        async (pod) => {
          // What happens between a command and this read counts as well. The file is empty while it is written.
          const count = () =>
            eventually(
              "a count",
              patienceMs,
              async () => Number(readFileSync(pod.path("files", "beat"), "utf8")) || undefined,
            );
          pod.start();
          await count();
          // A runner that looks more seldom obeys in time now and then.
          for (const [round, after] of [1, 2, 3].entries()) {
            const epoch = 2 * round + 1;
            await pod.beats(after);
            await pod.command(`stop ${epoch} -`);
            const stopping = await count();
            await pod.reported("stopped", epoch);
            await pod.beats(after);
            await pod.command(`start ${epoch + 1} -`);
            const starting = await count();
            await pod.reported("started", epoch + 1);
            await pod.beats(1);
            const [stopped, started] = [await countAt(pod, epoch), await countAt(pod, epoch + 1)];
            assert.ok(stopped <= stopping + 1, `stopped at ${stopped}, asked at ${stopping}`);
            assert.ok(started <= starting + 1, `started at ${started}, asked at ${starting}`);
          }
        },
        { command: [...shell.command, "-c", counting] },
      ));
});
