import t from 'tap'
import { isOpenToOthers } from '../../gateway/configuration/secret-files.ts'

t.test('the group may read what is another user’s: so a mounted Secret of Kubernetes is read', async (t) => {
  t.notOk(isOpenToOthers({ mode: 0o100440, uid: 0 }, 65_532))
  t.ok(isOpenToOthers({ mode: 0o100444, uid: 0 }, 65_532))
  t.ok(isOpenToOthers({ mode: 0o100440, uid: 65_532 }, 65_532))
  t.notOk(isOpenToOthers({ mode: 0o100400, uid: 65_532 }, 65_532))
  t.notOk(isOpenToOthers({ mode: 0o100622, uid: 65_532 }, 65_532))
})
