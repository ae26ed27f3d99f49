import { type ChildProcess, spawn } from 'node:child_process'

/** A test process that is killed runs no teardown: then the pipe of a guard to this one closes, and it ends the child. */
export function endWithThisProcess(child: ChildProcess): void {
  const script = 'read -r word; kill -9 "$1"'
  const guard = spawn('sh', ['-c', script, 'guard', String(child.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  // The child's number may belong to another process after its end.
  child.once('exit', () => guard.kill('SIGKILL'))
}
