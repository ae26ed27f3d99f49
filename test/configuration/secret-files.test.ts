import t from 'tap'
import { isOpenToOthers } from '../../gateway/configuration/secret-files.ts'

t.test("a group may read another user's file, such as a mounted Secret, but not the gateway's own", async (t) => {
  t.notOk(isOpenToOthers({ mode: 0o100440, uid: 0 }, 65_532))
  t.ok(isOpenToOthers({ mode: 0o100444, uid: 0 }, 65_532))
  t.ok(isOpenToOthers({ mode: 0o100440, uid: 65_532 }, 65_532))
  t.notOk(isOpenToOthers({ mode: 0o100400, uid: 65_532 }, 65_532))
  t.notOk(isOpenToOthers({ mode: 0o100622, uid: 65_532 }, 65_532))
})
