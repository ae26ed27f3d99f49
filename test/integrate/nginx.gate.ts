import t, { type Test } from 'tap'
import { type Places, placeExample, testShown, writeFolder } from '../support/ingress/examples.ts'
import { type Program, testProxy } from '../support/ingress/programs.ts'
import { testScenes } from '../support/ingress/scenes.ts'
import { startStage } from '../support/ingress/stage.ts'
import { startProgram } from '../support/ingress/start-program.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)

/** Debian's nginx.conf around `conf.d`, but with folders that every user may write to. */
const main = `
error_log stderr;
pid nginx.pid;
daemon off;
master_process off;
events {}
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  include sallyport.conf;
}
`

async function startNginx(t: Test, { path }: Program, places: Places): Promise<void> {
  const example = placeExample('nginx.conf', places)
  const folder = writeFolder(t, { 'nginx.conf': main, 'sallyport.conf': example })
  await startProgram(t, { path, args: ['-p', folder, '-c', 'nginx.conf'], folder, port: places.front })
}

testShown(t, 'nginx.md', ['nginx.conf'])

testProxy(t, 'nginx', async (t, program) => {
  const stage = await startStage(t, world, (t, places) => startNginx(t, program, places))
  testScenes(t, stage, { forwards: 'itself', adds: [], gatewayDown: { decision: 503, public: 503 }, backendDown: 503 })
})
