/** The real kubectl, as the administrator. */
import { execFile } from "node:child_process";
import type { ControlPlane } from "../controlplane/controlplane.ts";

/** kubectl's output. `given`: its input. Throws with its error output. */
export function kubectl(
  { kubectl: program, kubeconfig }: ControlPlane,
  args: readonly string[],
  given = "",
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = execFile(program, ["--kubeconfig", kubeconfig, ...args], (error, stdout, stderr) => {
    if (error === null) resolve(stdout);
    else reject(new Error(`kubectl ${args.join(" ")}: ${stderr}`));
  });
  child.stdin?.end(given);
  return promise;
}
