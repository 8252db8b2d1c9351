/** The real kubectl, as the administrator. */
import { execFile } from "node:child_process";
import type { ControlPlane } from "../controlplane/controlplane.ts";

/** What it prints. `given`: what it reads. Throws with what it complains of. */
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
